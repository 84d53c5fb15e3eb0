// sketch: encode of `turboquant-prod`, in one pass over memory: as encode.cl, and then the
// residual, its norm, and the signs of its sketch.
//
// x, rotation, thresholds, codes, norms   as in encode.cl; with BITS == 0 there are no codes
// levels          LEVELS
// sketch          SKETCH == 1: S transposed and padded to (DIM, 8 GROUPS)
//                 SKETCH == 2: the signs of two randomized transforms, (2, DIM)
// kept            SKETCH == 2: which coordinate of what they give each row of S is
// signs           (count, GROUPS) bytes: bit i % 8 of byte i / 8 is 1 where row i is not negative
// residual_norms  relative to the norm
//
// Moves DIM * 4 + ROW_BYTES + GROUPS + 8 bytes a vector, and with SKETCH == 1 computes DIM^2
// products.
#include "common.cl"

KERNEL encode(__global const float *restrict x, __global const real *restrict rotation,
              __global const real *restrict thresholds, __global const real *restrict levels,
              __global const real *restrict sketch, __global const int *restrict kept,
              __global uchar *restrict codes, __global float *restrict norms,
              __global uchar *restrict signs, __global float *restrict residual_norms,
              int count, int block)
{
    SHARED real y[DIM];
    SHARED real spare[SPARE];
    SHARED real sums[LANES];
    int first = get_group_id(0) * block, end = min(count, first + block);
    for (int n = first; n < end; n++) {
        real length = load(x + (size_t)n * DIM, rotation, y, sums, norms + n);
        real unit = length > 0 ? 1 / length : 1;
#if ROTATED
        unit *= (real)SHRINK;
        transform(y, spare, rotation);
#endif
        EACH(i, DIM) y[i] *= unit;
        BARRIER();
#if BITS > 0
        EACH(g, GROUPS) {
            ulong word = 0;
            for (int j = 0; j < 8 && 8 * g + j < DIM; j++) {
                uint index = quantize(y[8 * g + j], thresholds, 1);
                y[8 * g + j] -= levels[index];
                word |= (ulong)index << (BITS * j);
            }
            store_group(codes + (size_t)n * ROW_BYTES, g, BITS, word);
        }
        BARRIER();
#endif
        real energy = sum_squares(y, sums);
        if (LANE == 0)
            residual_norms[n] = (float)sqrt(energy);
#if SKETCH == 1
        EACH(g, GROUPS) {
            real8 rows = 0;
            for (int i = 0; i < DIM; i++)
                rows += ((__global const real8 *)sketch)[i * GROUPS + g] * y[i];
            real row[8] = {rows.s0, rows.s1, rows.s2, rows.s3, rows.s4, rows.s5, rows.s6, rows.s7};
            uint byte = 0;
            for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
                byte |= (uint)(row[j] >= 0) << j;
            signs[(size_t)n * GROUPS + g] = (uchar)byte;
        }
#elif SKETCH == 2
        mix(y, spare, rotation, sketch);
        EACH(g, GROUPS) {
            uint byte = 0;
            for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
                byte |= (uint)(y[kept[8 * g + j]] >= 0) << j;
            signs[(size_t)n * GROUPS + g] = (uchar)byte;
        }
#endif
        BARRIER();
    }
}
