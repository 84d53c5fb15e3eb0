// scores: estimates of <q, x> from packed codes. No decoded copy of x goes to memory.
//
// queries         (query_count, DIM) float, rotated
// projected       (query_count, DIM) float, S times that; only with SKETCH > 0
// levels          LEVELS, as in decode.cl, then -1 and 1: the levels of a sign
// codes, norms    what encode stored of `count` vectors; signs and residual_norms too
// scale           of the sketch
// out             (query_count, count) float
// A work-group takes `block` consecutive vectors and QUERIES queries.
//
// Moves, for each QUERIES queries, ROW_BYTES + 4 bytes a vector (GROUPS + 4 more with a sketch),
// and 4 bytes a score.
#include "common.cl"

KERNEL scores(__global const float *restrict queries, __global const float *restrict projected,
              __global const float *restrict levels, __global const uchar *restrict codes,
              __global const float *restrict norms, __global const uchar *restrict signs,
              __global const float *restrict residual_norms, float scale,
              __global float *restrict out, int query_count, int count, int block)
{
    int first = get_group_id(0) * block, end = min(count, first + block);
    int start = get_group_id(1) * QUERIES, present = min(QUERIES, query_count - start);
#if SIMD_ROWS(BITS)
    float8 taken[QUERIES * DIM / 8], rows[FOUR * DIM / 8];
    take_queries(queries, start, query_count, taken);
    float upper[LEVELS];
    take_upper(levels, BITS, upper);
#if SKETCH > 0
    const float one = 1;
    float8 sketched[QUERIES * DIM / 8], sign_rows[FOUR * DIM / 8];
    take_queries(projected, start, query_count, sketched);
#endif
    for (int n = first; n < end; n += FOUR) {
        int present_rows = min(FOUR, end - n);
        float norm[8], part[8];
        for (int k = 0; k < 8; k++) {
            int row = min(n + k % FOUR, count - 1);
            norm[k] = norms[row];
#if SKETCH > 0
            part[k] = residual_norms[row] * scale;
#endif
        }
#if BITS > 0
        take_rows(codes, ROW_BYTES, BITS, upper, n, count, rows);
#endif
#if SKETCH > 0
        take_rows(signs, GROUPS, 1, &one, n, count, sign_rows);
#endif
        for (int m = 0; m < present; m += 2) {
            float8 sums = 0;
#if SKETCH > 0
            sums = multiply_rows(sign_rows, sketched, m)
                   * (float8)(part[0], part[1], part[2], part[3],
                              part[0], part[1], part[2], part[3]);
#endif
#if BITS > 0
            sums += multiply_rows(rows, taken, m);
#endif
            float result[8] = {sums.s0, sums.s1, sums.s2, sums.s3,
                               sums.s4, sums.s5, sums.s6, sums.s7};
            for (int k = 0; k < present_rows; k++) {
                out[(size_t)(start + m) * count + n + k] = result[k] * norm[k];
                if (m + 1 < present)
                    out[(size_t)(start + m + 1) * count + n + k] = result[FOUR + k] * norm[k];
            }
        }
    }
#else
    EACH(offset, end - first) {
        int n = first + offset;
        float result[QUERIES];
        estimate_row(codes, signs, residual_norms, scale, levels, queries, projected, n, start,
                     query_count, result);
        for (int m = 0; m < present; m++)
            out[(size_t)(start + m) * count + n] = result[m] * norms[n];
    }
#endif
}
