// sketch: encode of `turboquant-prod`, in one pass over memory: as encode.cl, and then the
// residual, its norm, and the signs of its sketch.
//
// x, rotation, thresholds, codes, norms   as in encode.cl; with BITS == 0 there are no codes
// levels          LEVELS
// sketch          SKETCH == 1: S, laid out as `multiply_dense` says
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
    SHARED real y[VECTORS * DIM];
    SHARED real spare[SPARE];
    SHARED real sums[LANES];
    int first = get_group_id(0) * block, end = min(count, first + block);
    for (int start = first; start < end; start += VECTORS) {
        for (int n = start; n < min(start + VECTORS, end); n++) {
            SHARED real *own = y + (n - start) * DIM;
            real length = load(x + (size_t)n * DIM, rotation, own, sums, norms + n);
            real unit = length > 0 ? 1 / length : 1;
#if ROTATED
            unit *= (real)SHRINK;
            transform(own, spare, rotation);
#endif
            EACH(i, DIM) own[i] *= unit;
            BARRIER();
#if BITS > 0
            EACH(g, GROUPS) {
                ulong word = 0;
                for (int j = 0; j < 8 && 8 * g + j < DIM; j++) {
                    uint index = quantize(own[8 * g + j], thresholds, 1);
                    own[8 * g + j] -= levels[index];
                    word |= (ulong)index << (BITS * j);
                }
                store_group(codes + (size_t)n * ROW_BYTES, g, BITS, word);
            }
            BARRIER();
#endif
            real energy = sum_squares(own, sums);
            if (LANE == 0)
                residual_norms[n] = (float)sqrt(energy);
#if SKETCH == 2
            mix(own, spare, rotation, sketch);
            EACH(g, GROUPS) {
                uint byte = 0;
                for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
                    byte |= (uint)(own[kept[8 * g + j]] >= 0) << j;
                signs[(size_t)n * GROUPS + g] = (uchar)byte;
            }
#endif
            BARRIER();
        }
#if SKETCH == 1
        EACH(g, GROUPS) {
            real rows[8 * VECTORS];
            multiply_dense(sketch, y, g, rows);
            for (int n = start; n < min(start + VECTORS, end); n++) {
                uint byte = 0;
                for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
                    byte |= (uint)(rows[8 * (n - start) + j] >= 0) << j;
                signs[(size_t)n * GROUPS + g] = (uchar)byte;
            }
        }
        BARRIER();
#endif
    }
}
