// attend: attention on the compressed cache. Online softmax over the codes of K; V is
// summed in its rotated coordinates, which merge.cl rotates back, once for each output.
//
// queries, projected   as in scores.cl, for the codec of K
// key_*                what encode stored of K: BITS, SKETCH and levels as in scores.cl
// value_*              what encode stored of V: VALUE_BITS, VALUE_SKETCH, levels likewise
// softness             the factor of the scores, as 1 / sqrt(DIM)
// causal               1: the queries stand at the last positions and see none that follow
// before, whole_count  where K and V come in pieces: keys before these `count`, and of all pieces;
//                      parts_before, parts: likewise the work-groups along the keys
//
// A work-group takes `chunk` keys and QUERIES queries, and leaves for each query the
// largest score, the sum of exp(score - largest), and the sums of V in rotated coordinates and
// of the signs of its sketch: (query_count, parts) and (query_count, parts, DIM).
//
// Moves, for each QUERIES queries, the codes of K and of V once; and parts * (DIM + 2) * 8 bytes
// a query between here and merge.cl.
#include "common.cl"

#ifndef VALUE_BITS
#define VALUE_BITS 4
#endif
#ifndef VALUE_SKETCH
#define VALUE_SKETCH 0
#endif
#define VALUE_LEVELS (1 << VALUE_BITS)
#define VALUE_ROW_BYTES ((DIM * VALUE_BITS + 7) / 8)
#define TILE 64  // keys between two looks at the largest score
#define SIMD_ATTEND (SIMD_ROWS(BITS) && SIMD_ROWS(VALUE_BITS))
#define OWN ((DIM + LANES - 1) / LANES)  // coordinates of V that a lane sums

#if SIMD_ATTEND
// sums += weights[m] * a row of levels, lane by lane.
INLINE void add_row(__global const uchar *row, int bits, const float *upper, const float *weights,
                    float8 *sums)
{
#pragma OPENCL FP_CONTRACT ON
    for (int b = 0; b < DIM / 64; b++) {
        uint8 packed = load_block(row, b, bits);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float8 level = look_up(packed >> (uint)(bits * j), bits, upper);
#pragma unroll
            for (int m = 0; m < QUERIES; m++)
                sums[(8 * b + j) * QUERIES + m] += level * weights[m];
        }
    }
}

// The sums of each query, which lie "along" the registers, to rows of memory.
INLINE void leave_sums(float8 *sums, int m, __global float *row)
{
    for (int b = 0; b < DIM / 64; b++) {
        float8 v[8];
        for (int j = 0; j < 8; j++)
            v[j] = sums[(8 * b + j) * QUERIES + m];
        transpose8(v);
        for (int j = 0; j < 8; j++)
            ((__global float8 *)row)[8 * b + j] = v[j];
    }
}
#endif

KERNEL attend(__global const float *restrict queries, __global const float *restrict projected,
              __global const float *restrict key_levels, __global const uchar *restrict key_codes,
              __global const float *restrict key_norms, __global const uchar *restrict key_signs,
              __global const float *restrict key_residual_norms, float key_scale,
              __global const float *restrict value_levels,
              __global const uchar *restrict value_codes,
              __global const float *restrict value_norms,
              __global const uchar *restrict value_signs,
              __global const float *restrict value_residual_norms, float value_scale,
              __global float *restrict largest_out, __global float *restrict total_out,
              __global float *restrict sums_out, __global float *restrict sketch_out,
              float softness, int causal, int query_count, int count, int chunk, int before,
              int whole_count, int parts_before, int parts)
{
    int part = parts_before + (int)get_group_id(0);
    int first = get_group_id(0) * chunk, end = min(count, first + chunk);
    int start = get_group_id(1) * QUERIES, present = min(QUERIES, query_count - start);
    SHARED float weights[QUERIES * TILE];
    float largest[QUERIES], total[QUERIES];
    for (int m = 0; m < QUERIES; m++)
        largest[m] = -INFINITY, total[m] = 0;
#if SIMD_ATTEND
    float key_upper[LEVELS], value_upper[VALUE_LEVELS];
    const float one = 1;
    for (int k = 0; k < LEVELS / 2; k++)
        key_upper[k] = key_levels[LEVELS / 2 + k];
    for (int k = 0; k < VALUE_LEVELS / 2; k++)
        value_upper[k] = value_levels[VALUE_LEVELS / 2 + k];
    float8 taken[QUERIES * DIM / 8], sums[QUERIES * DIM / 8];
    take_queries(queries, start, query_count, taken);
#if SKETCH > 0
    float8 sketched[QUERIES * DIM / 8];
    take_queries(projected, start, query_count, sketched);
#endif
#if VALUE_SKETCH > 0
    float8 sketch_sums[QUERIES * DIM / 8];
    for (int i = 0; i < QUERIES * DIM / 8; i++)
        sketch_sums[i] = 0;
#endif
    for (int i = 0; i < QUERIES * DIM / 8; i++)
        sums[i] = 0;
#else
    float sums[QUERIES * OWN], sketch_sums[QUERIES * OWN];
    for (int i = 0; i < QUERIES * OWN; i++)
        sums[i] = 0, sketch_sums[i] = 0;
#endif
    for (int tile = first; tile < end; tile += TILE) {
        int size = min(TILE, end - tile);
        EACH(t, TILE) {
            float result[QUERIES];
            for (int m = 0; m < QUERIES; m++)
                result[m] = 0;
            int n = tile + t;
            if (t < size) {
#if SIMD_ATTEND
                float8 products[QUERIES];
                for (int m = 0; m < QUERIES; m++)
                    products[m] = 0;
#if SKETCH > 0
                multiply_row(key_signs + (size_t)n * GROUPS, 1, &one, sketched, products);
                for (int m = 0; m < QUERIES; m++)
                    products[m] *= key_residual_norms[n] * key_scale;
#endif
#if BITS > 0
                multiply_row(key_codes + (size_t)n * ROW_BYTES, BITS, key_upper, taken, products);
#endif
                for (int m = 0; m < QUERIES; m++)
                    result[m] = sum8(products[m]);
#else
#if SKETCH > 0
                multiply_any(key_signs + (size_t)n * GROUPS, 1, key_levels + LEVELS, projected,
                             start, query_count, result);
                for (int m = 0; m < QUERIES; m++)
                    result[m] *= key_residual_norms[n] * key_scale;
#endif
#if BITS > 0
                multiply_any(key_codes + (size_t)n * ROW_BYTES, BITS, key_levels, queries, start,
                             query_count, result);
#endif
#endif
            }
            for (int m = 0; m < QUERIES; m++) {
                int seen = causal ? whole_count - query_count + start + m + 1 - before : count;
                weights[m * TILE + t] =
                    t < size && n < seen ? result[m] * key_norms[n] * softness : -INFINITY;
            }
        }
        BARRIER();
        float shrink[QUERIES];
        for (int m = 0; m < QUERIES; m++) {
            float now = largest[m];
            for (int t = 0; t < size; t++)
                now = max(now, weights[m * TILE + t]);
            shrink[m] = largest[m] == now ? 1 : exp(largest[m] - now);  // 1 where none is seen yet
            largest[m] = now;
        }
        BARRIER();
        for (int m = 0; m < QUERIES; m++)
            EACH(t, TILE) {
                float score = weights[m * TILE + t];
                weights[m * TILE + t] = score == -INFINITY ? 0 : exp(score - largest[m]);
            }
        BARRIER();
        for (int m = 0; m < QUERIES; m++) {
            total[m] *= shrink[m];
            for (int t = 0; t < size; t++)
                total[m] += weights[m * TILE + t];
        }
#if SIMD_ATTEND
        for (int i = 0; i < DIM / 8; i++)
            for (int m = 0; m < QUERIES; m++) {
                sums[i * QUERIES + m] *= shrink[m];
#if VALUE_SKETCH > 0
                sketch_sums[i * QUERIES + m] *= shrink[m];
#endif
            }
        for (int t = 0; t < size; t++) {
            int n = tile + t;
            float factor[QUERIES];
            for (int m = 0; m < QUERIES; m++)
                factor[m] = weights[m * TILE + t] * value_norms[n];
#if VALUE_BITS > 0
            add_row(value_codes + (size_t)n * VALUE_ROW_BYTES, VALUE_BITS, value_upper, factor,
                    sums);
#endif
#if VALUE_SKETCH > 0
            for (int m = 0; m < QUERIES; m++)
                factor[m] *= value_residual_norms[n] * value_scale;
            add_row(value_signs + (size_t)n * GROUPS, 1, &one, factor, sketch_sums);
#endif
        }
#else
        for (int own = 0; own < OWN; own++) {
            int i = own * LANES + LANE;
            if (i < DIM) {
                for (int m = 0; m < QUERIES; m++) {
                    sums[m * OWN + own] *= shrink[m];
                    sketch_sums[m * OWN + own] *= shrink[m];
                }
                for (int t = 0; t < size; t++) {
                    int n = tile + t;
                    float level = 0, sign = 0;
#if VALUE_BITS > 0
                    level = value_levels[load_index(value_codes + (size_t)n * VALUE_ROW_BYTES, i,
                                                    VALUE_BITS)] * value_norms[n];
#endif
#if VALUE_SKETCH > 0
                    sign = sign_of(value_signs + (size_t)n * GROUPS, i) * value_norms[n]
                           * value_residual_norms[n] * value_scale;
#endif
                    for (int m = 0; m < QUERIES; m++) {
                        sums[m * OWN + own] += weights[m * TILE + t] * level;
                        sketch_sums[m * OWN + own] += weights[m * TILE + t] * sign;
                    }
                }
            }
        }
        BARRIER();
#endif
    }
    for (int m = 0; m < present; m++) {
        size_t place = (size_t)(start + m) * parts + part;
        if (LANE == 0) {
            largest_out[place] = largest[m];
            total_out[place] = total[m];
        }
#if SIMD_ATTEND
        leave_sums(sums, m, sums_out + place * DIM);
#if VALUE_SKETCH > 0
        leave_sums(sketch_sums, m, sketch_out + place * DIM);
#endif
#else
        for (int own = 0; own < OWN; own++) {
            int i = own * LANES + LANE;
            if (i < DIM) {
                sums_out[place * DIM + i] = sums[m * OWN + own];
#if VALUE_SKETCH > 0
                sketch_out[place * DIM + i] = sketch_sums[m * OWN + own];
#endif
            }
        }
#endif
    }
}
