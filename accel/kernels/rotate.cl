// rotate_forward, rotate_inverse, project: what queries go through, a vector at a time.
//
// x, out       (count, DIM) float, another place each
// rotation     see common.cl
// sketch       as in sketch.cl, and kept
// A work-group takes `block` consecutive vectors.
//
// Moves 2 * DIM * 4 bytes a vector.
#include "common.cl"

// out <- T (signs * x)
KERNEL rotate_forward(__global const float *restrict x, __global const float *restrict rotation,
              __global float *restrict out, int count, int block)
{
    SHARED float y[DIM];
    SHARED float spare[SPARE];
    int first = get_group_id(0) * block, end = min(count, first + block);
    for (int n = first; n < end; n++) {
        EACH(i, DIM) y[i] = x[(size_t)n * DIM + i] * rotation[i] * (float)SHRINK;
        BARRIER();
        transform(y, spare, rotation);
        EACH(i, DIM) out[(size_t)n * DIM + i] = y[i];
        BARRIER();
    }
}

// out <- signs * T x
KERNEL rotate_inverse(__global const float *restrict x, __global const float *restrict rotation,
                __global float *restrict out, int count, int block)
{
    SHARED float y[DIM];
    SHARED float spare[SPARE];
    int first = get_group_id(0) * block, end = min(count, first + block);
    for (int n = first; n < end; n++) {
        EACH(i, DIM) y[i] = x[(size_t)n * DIM + i] * (float)SHRINK;
        BARRIER();
        transform(y, spare, rotation);
        EACH(i, DIM) out[(size_t)n * DIM + i] = y[i] * rotation[i];
        BARRIER();
    }
}

#if SKETCH > 0
// out <- S x, x in the rotated coordinates
KERNEL project(__global const float *restrict x, __global const float *restrict rotation,
               __global const float *restrict sketch, __global const int *restrict kept,
               __global float *restrict out, int count, int block)
{
    SHARED float y[DIM];
    SHARED float spare[SPARE];
    int first = get_group_id(0) * block, end = min(count, first + block);
    for (int n = first; n < end; n++) {
        EACH(i, DIM) y[i] = x[(size_t)n * DIM + i];
        BARRIER();
#if SKETCH == 1
        EACH(g, GROUPS) {
            float rows[8];
            multiply_dense(sketch, y, g, rows);
            for (int j = 0; j < 8 && 8 * g + j < DIM; j++)
                out[(size_t)n * DIM + 8 * g + j] = rows[j];
        }
#else
        mix(y, spare, rotation, sketch);
        EACH(row, DIM) out[(size_t)n * DIM + row] = y[kept[row]] * (float)(SHRINK * SHRINK);
#endif
        BARRIER();
    }
}
#endif
