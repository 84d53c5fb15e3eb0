// merge: brings the chunks of attention.cl together and rotates each output back, once.
//
// largest, total   (query_count, parts): of each chunk, the largest score and the sum of
//                  exp(score - largest)
// sums             (query_count, parts, DIM): of V in its rotated coordinates, so weighted
// sketch_sums      likewise of the signs of V's sketch, where SKETCH > 0
// rotation, sketch, kept   of the codec of V, as in decode.cl
// out              (query_count, DIM) float
// A work-group takes one query.
//
// Moves parts * (DIM + 2) * 4 + DIM * 4 bytes a query, parts * DIM * 4 more with a sketch.
#include "common.cl"

KERNEL merge(__global const float *restrict largest, __global const float *restrict total,
             __global const float *restrict sums, __global const float *restrict sketch_sums,
             __global const float *restrict rotation, __global const float *restrict sketch,
             __global const int *restrict kept, __global float *restrict out, int parts)
{
    SHARED float y[DIM];
    SHARED float spare[SPARE];
#if SKETCH > 0
    SHARED float correction[DIM];
#endif
    size_t query = get_group_id(0), at = query * parts;
    float top = -INFINITY, whole = 0;
    for (int part = 0; part < parts; part++)
        top = max(top, largest[at + part]);
    for (int part = 0; part < parts; part++)
        if (total[at + part] > 0)
            whole += total[at + part] * exp(largest[at + part] - top);
    EACH(i, DIM) {
        y[i] = 0;
#if SKETCH > 0
        correction[kept[i]] = 0;
#endif
        for (int part = 0; part < parts; part++)
            if (total[at + part] > 0) {
                float weight = exp(largest[at + part] - top) / whole;
                y[i] += weight * sums[(at + part) * DIM + i];
#if SKETCH > 0
                correction[kept[i]] += weight * sketch_sums[(at + part) * DIM + i];
#endif
            }
    }
    BARRIER();
#if SKETCH == 1
    EACH(g, GROUPS) {
        float eight[8];
        multiply_dense(sketch, correction, g, eight);
        for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
            y[8 * g + j] += eight[j];
    }
    BARRIER();
#elif SKETCH == 2
    unmix(correction, spare, rotation, sketch);
    EACH(i, DIM) y[i] += correction[i] * (float)(SHRINK * SHRINK);
    BARRIER();
#endif
#if ROTATED
    transform(y, spare, rotation);
    EACH(i, DIM) out[query * DIM + i] = y[i] * (float)SHRINK * rotation[i];
#else
    EACH(i, DIM) out[query * DIM + i] = y[i];
#endif
}
