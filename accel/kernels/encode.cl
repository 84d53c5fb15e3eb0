// encode: norm, signs, transform, quantize, pack, in one pass over memory.
//
// x            (count, DIM) float
// rotation     see common.cl
// thresholds   LEVELS - 1, increasing, for the coordinates of a unit vector
// codes, norms what is stored; a norm that is not finite says that x cannot be
// A work-group takes `block` consecutive vectors.
//
// Moves DIM * 4 + ROW_BYTES + 4 bytes a vector.
#include "common.cl"

#if SIMD
// y <- scale * signs * x; returns the sum of squares. Four sums: rounding grows as a root.
INLINE float load_signed(__global const float8 *x, __global const float8 *signs, float scale,
                         float8 *y)
{
    float8 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma unroll
    for (int r = 0; r < DIM / 8; r += 4) {
        float8 a = x[r] * scale, b = x[r + 1] * scale, c = x[r + 2] * scale, d = x[r + 3] * scale;
        s0 += a * a, s1 += b * b, s2 += c * c, s3 += d * d;
        y[r] = a * signs[r], y[r + 1] = b * signs[r + 1];
        y[r + 2] = c * signs[r + 2], y[r + 3] = d * signs[r + 3];
    }
    return sum8((s0 + s1) + (s2 + s3));
}
#endif

KERNEL encode(__global const float *restrict x, __global const real *restrict rotation,
              __global const real *restrict thresholds, __global uchar *restrict codes,
              __global float *restrict norms, int count, int block)
{
    int first = get_group_id(0) * block, end = min(count, first + block);
#if SIMD
    __global const float8 *signs = (__global const float8 *)rotation;
    for (int n = first; n < end; n++) {
        __global const float8 *row = (__global const float8 *)(x + (size_t)n * DIM);
        float8 y[DIM / 8];
        float unscale = 1, energy = load_signed(row, signs, 1, y);
        if (safe_scale(energy) != 1) {
            unscale = safe_scale(energy) > 1 ? 0x1p-100f : 0x1p100f;
            energy = load_signed(row, signs, safe_scale(energy), y);
        }
        float length = sqrt(energy);
        norms[n] = length * unscale;
        hadamard_blocks(y);
        float unit = length > 0 ? length * (float)GROW : 1;
        float t[LEVELS / 2];  // of magnitudes: the table is odd
#pragma unroll
        for (int k = 1; k < LEVELS / 2; k++)
            t[k] = thresholds[LEVELS / 2 - 1 + k] * unit;
        for (int b = 0; b < DIM / 64; b++) {
            float8 v[8];
#pragma unroll
            for (int j = 0; j < 8; j++)
                v[j] = y[8 * b + j];
            hadamard8(v);
            transpose8(v);
            hadamard8(v);
            uint8 packed = 0;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float8 magnitude = as_float8(as_uint8(v[j]) & 0x7fffffffu);
                int8 index = LEVELS / 2;
#pragma unroll
                for (int k = 1; k < LEVELS / 2; k++)
                    index -= magnitude >= t[k];
                index ^= (v[j] < 0) & (LEVELS - 1);
                packed |= as_uint8(index) << (uint)(BITS * j);
            }
            store_block(codes + (size_t)n * ROW_BYTES, b, BITS, packed);
        }
    }
#else
    SHARED real y[DIM];
    SHARED real spare[SPARE];
    SHARED real sums[LANES];
    for (int n = first; n < end; n++) {
        real length = load(x + (size_t)n * DIM, rotation, y, sums, norms + n);
        real unit = length > 0 ? length : 1;
#if ROTATED
        unit *= (real)GROW;
        transform(y, spare, rotation);
#endif
        EACH(g, GROUPS) {
            ulong word = 0;
            for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
                word |= (ulong)quantize(y[8 * g + j], thresholds, unit) << (BITS * j);
            store_group(codes + (size_t)n * ROW_BYTES, g, BITS, word);
        }
        BARRIER();
    }
#endif
}
