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
// sums[., m] += four rows times factors[m * FOUR ...].
INLINE void add_rows(const float8 *rows, const float *factors, float8 *sums)
{
#pragma OPENCL FP_CONTRACT ON
    for (int r = 0; r < DIM / 8; r++) {
        float8 a = rows[r * FOUR], b = rows[r * FOUR + 1];
        float8 c = rows[r * FOUR + 2], d = rows[r * FOUR + 3];
        for (int m = 0; m < QUERIES; m++) {
            const float *factor = factors + m * FOUR;
            float8 sum = sums[r * QUERIES + m];
            sum += a * factor[0];
            sum += b * factor[1];
            sum += c * factor[2];
            sum += d * factor[3];
            sums[r * QUERIES + m] = sum;
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
    SHARED float weights[QUERIES * TILE] __attribute__((aligned(32)));
    float largest[QUERIES], total[QUERIES];
    for (int m = 0; m < QUERIES; m++)
        largest[m] = -INFINITY, total[m] = 0;
#if SIMD_ATTEND
    float key_upper[LEVELS], value_upper[VALUE_LEVELS];
    const float one = 1;
    take_upper(key_levels, BITS, key_upper);
    take_upper(value_levels, VALUE_BITS, value_upper);
    float8 taken[QUERIES * DIM / 8], sums[QUERIES * DIM / 8], rows[FOUR * DIM / 8];
    take_queries(queries, start, query_count, taken);
#if SKETCH > 0
    float8 sketched[QUERIES * DIM / 8], sign_rows[FOUR * DIM / 8];
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
#if SIMD_ATTEND
        for (int t = 0; t < size; t += FOUR) {
            int n = tile + t;
#if BITS > 0
            take_rows(key_codes, ROW_BYTES, BITS, key_upper, n, count, rows);
#endif
#if SKETCH > 0
            take_rows(key_signs, GROUPS, 1, &one, n, count, sign_rows);
#endif
            for (int m = 0; m < QUERIES; m += 2) {
                float8 products = 0;
#if BITS > 0
                products = multiply_rows(rows, taken, m);
#endif
                float result[8] = {products.s0, products.s1, products.s2, products.s3,
                                   products.s4, products.s5, products.s6, products.s7};
#if SKETCH > 0
                products = multiply_rows(sign_rows, sketched, m);
                float part[8] = {products.s0, products.s1, products.s2, products.s3,
                                 products.s4, products.s5, products.s6, products.s7};
#endif
                for (int k = 0; k < (QUERIES > 1 ? 8 : FOUR); k++) {
                    int row = min(n + k % FOUR, count - 1);
#if SKETCH > 0
                    result[k] += part[k] * key_residual_norms[row] * key_scale;
#endif
                    weights[(m + k / FOUR) * TILE + t + k % FOUR] =
                        result[k] * key_norms[row] * softness;
                }
            }
        }
#else
        EACH(t, size) {
            int n = tile + t;
            float result[QUERIES];
            estimate_row(key_codes, key_signs, key_residual_norms, key_scale, key_levels, queries,
                         projected, n, start, query_count, result);
            for (int m = 0; m < QUERIES; m++)
                weights[m * TILE + t] = result[m] * key_norms[n] * softness;
        }
#endif
        BARRIER();
        for (int m = 0; m < QUERIES; m++) {  // what is absent or not seen gets no weight
            int seen = causal ? whole_count - query_count + start + m + 1 - before - tile : size;
            EACH(t, TILE) if (t >= seen || t >= size) weights[m * TILE + t] = -INFINITY;
        }
        BARRIER();
        float shrink[QUERIES];
        for (int m = 0; m < QUERIES; m++) {
            float now = largest[m];
            for (int t = 0; t < TILE; t++) {
                float score = weights[m * TILE + t];
                now = score > now ? score : now;
            }
            shrink[m] = largest[m] == now ? 1 : exp(largest[m] - now);  // 1 where none is seen yet
            largest[m] = now;
        }
        BARRIER();
        for (int m = 0; m < QUERIES; m++)
            EACH(group, TILE / 8) {
                SHARED float8 *eight = (SHARED float8 *)(weights + m * TILE) + group;
                float8 below = *eight - (largest[m] == -INFINITY ? 0 : largest[m]);
                *eight = exp(below);
            }
        BARRIER();
        for (int m = 0; m < QUERIES; m++) {
            total[m] *= shrink[m];
            for (int t = 0; t < TILE; t++)
                total[m] += weights[m * TILE + t];
        }
#if SIMD_ATTEND
        for (int m = 0; m < QUERIES; m++)
            for (int r = 0; r < DIM / 8 && shrink[m] != 1; r++) {
                sums[r * QUERIES + m] *= shrink[m];
#if VALUE_SKETCH > 0
                sketch_sums[r * QUERIES + m] *= shrink[m];
#endif
            }
        for (int t = 0; t < size; t += FOUR) {
            int n = tile + t;
            float factors[QUERIES * FOUR];
            for (int i = 0; i < QUERIES * FOUR; i++)
                factors[i] = weights[i / FOUR * TILE + t + i % FOUR]
                             * value_norms[min(n + i % FOUR, count - 1)];
#if VALUE_BITS > 0
            take_rows(value_codes, VALUE_ROW_BYTES, VALUE_BITS, value_upper, n, count, rows);
            add_rows(rows, factors, sums);
#endif
#if VALUE_SKETCH > 0
            for (int i = 0; i < QUERIES * FOUR; i++)
                factors[i] *= value_residual_norms[min(n + i % FOUR, count - 1)] * value_scale;
            take_rows(value_signs, GROUPS, 1, &one, n, count, rows);
            add_rows(rows, factors, sketch_sums);
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
