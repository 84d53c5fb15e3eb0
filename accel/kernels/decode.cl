// decode: unpack, look up, add the sketch's correction, inverse transform, signs, norm, in one
// pass over memory.
//
// codes, norms            what encode stored; signs and residual_norms too where SKETCH > 0
// rotation                see common.cl
// levels                  LEVELS, increasing and odd: level k is minus level LEVELS - 1 - k
// sketch                  SKETCH == 1: S transposed, as `multiply_dense` wants it; SKETCH == 2: as in
//                         sketch.cl
// kept                    as in sketch.cl
// scale                   of the sketch
// x                       (count, DIM) float
// A work-group takes `block` consecutive vectors.
//
// Moves DIM * 4 + ROW_BYTES + 4 bytes a vector, GROUPS + 4 more with a sketch.
#include "common.cl"

KERNEL decode(__global const uchar *restrict codes, __global const float *restrict norms,
              __global const uchar *restrict signs, __global const float *restrict residual_norms,
              __global const float *restrict rotation, __global const float *restrict levels,
              __global const float *restrict sketch, __global const int *restrict kept,
              float scale, __global float *restrict x, int count, int block)
{
    int first = get_group_id(0) * block, end = min(count, first + block);
#if SIMD && SKETCH == 0
    __global const float8 *flips = (__global const float8 *)rotation;
    float upper[LEVELS / 2];
    take_upper(levels, BITS, upper);
    for (int n = first; n < end; n++) {
        __global float8 *row = (__global float8 *)(x + (size_t)n * DIM);
        float8 y[DIM / 8];
        for (int b = 0; b < DIM / 64; b++) {
            uint8 packed = load_block(codes + (size_t)n * ROW_BYTES, b, BITS);
            float8 v[8];
#pragma unroll
            for (int j = 0; j < 8; j++)
                v[j] = look_up(packed >> (uint)(BITS * j), BITS, upper);
            hadamard8(v);
            transpose8(v);
            hadamard8(v);
#pragma unroll
            for (int j = 0; j < 8; j++)
                y[8 * b + j] = v[j];
        }
        hadamard_blocks(y);
        float size = norms[n] * (float)SHRINK;
#pragma unroll
        for (int r = 0; r < DIM / 8; r++)
            row[r] = y[r] * size * flips[r];
    }
#else
    SHARED float y[DIM];
    SHARED float spare[SPARE];
#if SKETCH > 0
    SHARED float correction[VECTORS * DIM];
#endif
#if SKETCH == 1
    SHARED float corrections[VECTORS * 8 * GROUPS];
#endif
    for (int start = first; start < end; start += VECTORS) {
#if SKETCH == 1
        EACH(i, VECTORS * DIM) {
            int n = min(start + i / DIM, end - 1);
            correction[i] = sign_of(signs + (size_t)n * GROUPS, i % DIM);
        }
        BARRIER();
        EACH(g, GROUPS) {
            float eight[8 * VECTORS];
            multiply_dense(sketch, correction, g, eight);
            for (int i = 0; i < 8 * VECTORS; i++)
                corrections[i / 8 * 8 * GROUPS + 8 * g + i % 8] = eight[i];
        }
        BARRIER();
#endif
        for (int n = start; n < min(start + VECTORS, end); n++) {
#if SKETCH == 2
            EACH(i, DIM) correction[kept[i]] = sign_of(signs + (size_t)n * GROUPS, i);
            BARRIER();
            unmix(correction, spare, rotation, sketch);
#endif
            EACH(g, GROUPS) {
#if BITS > 0
                ulong word = load_group(codes + (size_t)n * ROW_BYTES, g, BITS);
#endif
                for (int i = 8 * g; i < 8 * g + 8 && i < DIM; i++) {
                    float value = 0;
#if BITS > 0
                    value = levels[word >> (BITS * (i % 8)) & (LEVELS - 1)];
#endif
#if SKETCH == 1
                    value += corrections[(n - start) * 8 * GROUPS + i] * residual_norms[n] * scale;
#elif SKETCH == 2
                    value += correction[i] * (residual_norms[n] * scale * (float)(SHRINK * SHRINK));
#endif
                    y[i] = value;
                }
            }
            BARRIER();
            float norm = norms[n];
#if ROTATED
            transform(y, spare, rotation);
            EACH(i, DIM) x[(size_t)n * DIM + i] = y[i] * (float)SHRINK * rotation[i] * norm;
#else
            EACH(i, DIM) x[(size_t)n * DIM + i] = y[i] * norm;
#endif
            BARRIER();
        }
    }
#endif
}
