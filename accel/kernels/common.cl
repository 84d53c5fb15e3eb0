// What all kernels share: the tunables, the transform, the table, the bit packing.
//
// The host puts this file where a kernel's file includes it and defines the macros below;
// every one has a default, so that each file compiles alone.
//
// Layouts
//   x           (count, DIM) float, row by row
//   codes       (count, ROW_BYTES) bytes: coordinate by coordinate, lowest bit first, each row
//               from a new byte; BITS bytes hold eight coordinates. As kvassay.reference.packing.
//   rotation    DIM signs, then the ODD x ODD Hartley matrix: x -> T (signs * x), where T is
//               Walsh-Hadamard over the power of two and Hartley over the odd factor, the last
//               axis. As kvassay.reference.hadamard, but T is left larger by 1 / SHRINK here.
//
// Variants
//   LANES == 1  "item": one work-item a vector, in private memory; where DIM is a power of two
//               from 64 up and BITS <= 4, in registers of eight floats (SIMD). For CPUs.
//   LANES > 1   "group": one work-group a vector, in local memory with barriers. For GPUs.
//   The same source: SHARED, LANE, BARRIER and EACH say what differs.
//
// Forms to avoid, because a driver gets them wrong or slow: float16 swizzles and fma() (wrong
// codes and a compiler abort on PoCL 3.0), and vector built-ins such as vload8, select and fabs
// (calls that PoCL 3.0 does not inline). Operators, ?: and pointers to vectors do the same. A
// function with a barrier that is called twice crashes PoCL 3.0's compiler unless it must be inlined.

#pragma OPENCL FP_CONTRACT OFF  // the same rounding in every variant, tail and driver

#ifndef DIM
#define DIM 128  // of the vectors, 2..1024
#endif
#ifndef BITS
#define BITS 4  // of the table, 0..8; 0 is a sketch alone
#endif
#ifndef ROTATED
#define ROTATED 1  // 0: the coordinates as they are
#endif
#ifndef SKETCH
#define SKETCH 0  // 0 none, 1 a dense matrix (gaussian), 2 two randomized transforms (orthogonal)
#endif
#ifndef LANES
#define LANES 1  // work-items of a work-group, a power of two
#endif
#ifndef VECTORS
#define VECTORS 1  // that one pass over a dense sketch serves
#endif
#ifndef WIDE
#define WIDE 0  // 1: double where a rounding decides an index or a sign; needs cl_khr_fp64
#endif
#ifndef LITTLE_ENDIAN
#define LITTLE_ENDIAN 1
#endif

#if WIDE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double real;
typedef double8 real8;
#else
typedef float real;
typedef float8 real8;
#endif

#define LEVELS (1 << BITS)
#define GROUPS ((DIM + 7) / 8)  // of eight coordinates: BITS bytes
#define ROW_BYTES ((DIM * BITS + 7) / 8)
#define POWER (DIM & (~DIM + 1))  // the power of two in DIM
#define ODD (DIM / POWER)
#ifndef SHRINK
#define SHRINK (1 / sqrt((real)POWER))  // makes the transform orthogonal
#define GROW sqrt((real)POWER)
#endif
#define SIMD \
    (LANES == 1 && LITTLE_ENDIAN && !WIDE && ROTATED && BITS <= 4 && DIM >= 64 \
     && (DIM & (DIM - 1)) == 0)

#define INLINE static inline __attribute__((always_inline))
#define KERNEL __kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
#if LANES == 1
#define SHARED __private
#define LANE 0
#define BARRIER()
#else
#define SHARED __local
#define LANE ((int)get_local_id(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif
#if LANES == 1
#define EACH(i, count) for (int i = 0; i < (count); i++)
#else  // as many rounds for every lane: PoCL 3.0 stores rubbish at times where they differ
#define EACH(i, count) \
    for (int i = LANE, round_ = 0; round_ < (count); i += LANES, round_ += LANES) \
        if (i < (count))
#endif
#define SPARE (ODD > 1 ? DIM : 1)  // room that `transform` needs

// ---- one vector in SHARED memory: any dimension, both variants ----

// The sum of squares, to every lane. Lanes read what they wrote: i = LANE, LANE + LANES ...
INLINE real sum_squares(SHARED const real *y, SHARED real *sums)
{
#if LANES == 1
    real total = 0;
    for (int start = 0; start < DIM; start += 32) {  // two levels: rounding grows as a root
        real part = 0;
        for (int i = start; i < start + 32 && i < DIM; i++)
            part += y[i] * y[i];
        total += part;
    }
    return total;
#else
    real part = 0;
    EACH(i, DIM) part += y[i] * y[i];
    sums[LANE] = part;
    BARRIER();
    for (int reach = LANES / 2; reach > 0; reach /= 2) {
        if (LANE < reach)
            sums[LANE] += sums[LANE + reach];
        BARRIER();
    }
    part = sums[0];
    BARRIER();
    return part;
#endif
}

// A power of two that brings a vector with this sum of squares where squares neither overflow
// nor vanish.
INLINE real safe_scale(real energy)
{
    return energy > (real)0x1p100f ? (real)0x1p-100f : energy < (real)0x1p-80f ? (real)0x1p100f : 1;
}

// y <- signs * x (x if nothing is ROTATED), perhaps times a power of two. Returns the norm of y and
// gives that of x, which is not finite where x is not or where it exceeds float.
INLINE real load(__global const float *x, __global const real *rotation, SHARED real *y,
                 SHARED real *sums, __global float *norm)
{
#if ROTATED
    EACH(i, DIM) y[i] = x[i] * rotation[i];
#else
    EACH(i, DIM) y[i] = x[i];
#endif
    real energy = sum_squares(y, sums);
    real scale = safe_scale(energy);
    if (scale != 1) {
        EACH(i, DIM) y[i] *= scale;
        energy = sum_squares(y, sums);
    }
    real length = sqrt(energy);
    if (LANE == 0)
        *norm = (float)(length * (scale > 1 ? (real)0x1p-100f : scale < 1 ? (real)0x1p100f : 1));
    BARRIER();
    return length;
}

// y <- T y / SHRINK.
INLINE void transform(SHARED real *y, SHARED real *spare, __global const real *rotation)
{
#if ODD > 1
    EACH(i, DIM) {
        int row = i % ODD;
        real total = 0;
        for (int k = 0; k < ODD; k++)
            total += rotation[DIM + row * ODD + k] * y[i - row + k];
        spare[i] = total;
    }
    BARRIER();
    EACH(i, DIM) y[i] = spare[i];
    BARRIER();
#endif
    for (int step = ODD; step < DIM; step *= 2) {
        EACH(pair, DIM / 2) {
            int low = pair % step, i = 2 * pair - low;
            real a = y[i], b = y[i + step];
            y[i] = a + b;
            y[i + step] = a - b;
        }
        BARRIER();
    }
}

// How many of the thresholds, times `scale`, are <= value.
INLINE uint quantize(real value, __global const real *thresholds, real scale)
{
    uint index = 0;
    for (uint step = LEVELS / 2; step > 0; step /= 2)
        if (value >= thresholds[index + step - 1] * scale)
            index += step;
    return index;
}

// Eight indices of `bits` bits, the first lowest, to the `group`-th `bits` bytes of a row.
INLINE void store_group(__global uchar *row, int group, int bits, ulong word)
{
    int last = (DIM * bits + 7) / 8 - group * bits;
    for (int byte = 0; byte < bits && byte < last; byte++)
        row[group * bits + byte] = (uchar)(word >> (8 * byte));
}

INLINE ulong load_group(__global const uchar *row, int group, int bits)
{
    int last = (DIM * bits + 7) / 8 - group * bits;
    ulong word = 0;
    for (int byte = 0; byte < bits && byte < last; byte++)
        word |= (ulong)row[group * bits + byte] << (8 * byte);
    return word;
}

// One index of a row.
INLINE uint load_index(__global const uchar *row, int i, int bits)
{
    int first = i * bits / 8, shift = i * bits % 8;
    uint word = row[first];
    if (shift + bits > 8)
        word |= (uint)row[first + 1] << 8;
    return word >> shift & ((1u << bits) - 1);
}

// +1 or -1, the sign of row i of a sketch.
INLINE float sign_of(__global const uchar *row, int i)
{
    return row[i / 8] >> (i % 8) & 1 ? 1.0f : -1.0f;
}

#if SKETCH == 1
// Coordinates 8 g ... 8 g + 7 of the dense matrix times each of the VECTORS in y, to `out`. The
// matrix lies as (GROUPS, DIM, 8): for eight coordinates of the result, all that they are summed of.
INLINE void multiply_dense(__global const real *matrix, SHARED const real *y, int g, real *out)
{
    __global const real8 *columns = (__global const real8 *)matrix + g * DIM;
    real8 sums[VECTORS];
    for (int v = 0; v < VECTORS; v++)
        sums[v] = 0;
    for (int i = 0; i < DIM; i++) {
        real8 column = columns[i];
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            sums[v] += column * y[v * DIM + i];
    }
    for (int v = 0; v < VECTORS; v++) {
        real8 sum = sums[v];
        real eight[8] = {sum.s0, sum.s1, sum.s2, sum.s3, sum.s4, sum.s5, sum.s6, sum.s7};
        for (int j = 0; j < 8; j++)
            out[8 * v + j] = eight[j];
    }
}
#endif

#if SKETCH == 2
// y <- S y before its rows are picked, larger by 1 / SHRINK^2: two randomized transforms.
INLINE void mix(SHARED real *y, SHARED real *spare, __global const real *rotation,
                __global const real *sketch)
{
    for (int round = 0; round < 2; round++) {
        EACH(i, DIM) y[i] *= sketch[round * DIM + i];
        BARRIER();
        transform(y, spare, rotation);
    }
}

// The transpose of `mix`.
INLINE void unmix(SHARED real *y, SHARED real *spare, __global const real *rotation,
                  __global const real *sketch)
{
    for (int round = 1; round >= 0; round--) {
        transform(y, spare, rotation);
        EACH(i, DIM) y[i] *= sketch[round * DIM + i];
        BARRIER();
    }
}
#endif

// ---- registers of eight floats: DIM a multiple of 64 ----
//
// 64 coordinates are eight registers. Read from memory, register r holds coordinates 8 r ... 8 r
// + 7, "across"; after `transpose8`, lane l does, "along". A transform works between registers in
// either order, and packing wants the second: eight neighbours in one lane.

#define BUTTERFLY(a, b) { float8 sum = (a) + (b); (b) = (a) - (b); (a) = sum; }

INLINE void hadamard8(float8 *v)
{
    BUTTERFLY(v[0], v[1]) BUTTERFLY(v[2], v[3]) BUTTERFLY(v[4], v[5]) BUTTERFLY(v[6], v[7])
    BUTTERFLY(v[0], v[2]) BUTTERFLY(v[1], v[3]) BUTTERFLY(v[4], v[6]) BUTTERFLY(v[5], v[7])
    BUTTERFLY(v[0], v[4]) BUTTERFLY(v[1], v[5]) BUTTERFLY(v[2], v[6]) BUTTERFLY(v[3], v[7])
}

#define ZIP_LOW(a, b) (float8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5)
#define ZIP_HIGH(a, b) (float8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7)
#define PAIR_LOW(a, b) (float8)(a.s01, b.s01, a.s45, b.s45)
#define PAIR_HIGH(a, b) (float8)(a.s23, b.s23, a.s67, b.s67)

INLINE void transpose8(float8 *v)
{
    float8 a0 = ZIP_LOW(v[0], v[1]), a1 = ZIP_HIGH(v[0], v[1]);
    float8 a2 = ZIP_LOW(v[2], v[3]), a3 = ZIP_HIGH(v[2], v[3]);
    float8 a4 = ZIP_LOW(v[4], v[5]), a5 = ZIP_HIGH(v[4], v[5]);
    float8 a6 = ZIP_LOW(v[6], v[7]), a7 = ZIP_HIGH(v[6], v[7]);
    float8 b0 = PAIR_LOW(a0, a2), b1 = PAIR_HIGH(a0, a2), b2 = PAIR_LOW(a1, a3);
    float8 b3 = PAIR_HIGH(a1, a3), b4 = PAIR_LOW(a4, a6), b5 = PAIR_HIGH(a4, a6);
    float8 b6 = PAIR_LOW(a5, a7), b7 = PAIR_HIGH(a5, a7);
    v[0] = (float8)(b0.lo, b4.lo);
    v[1] = (float8)(b1.lo, b5.lo);
    v[2] = (float8)(b2.lo, b6.lo);
    v[3] = (float8)(b3.lo, b7.lo);
    v[4] = (float8)(b0.hi, b4.hi);
    v[5] = (float8)(b1.hi, b5.hi);
    v[6] = (float8)(b2.hi, b6.hi);
    v[7] = (float8)(b3.hi, b7.hi);
}

// The butterflies between the blocks of 64 coordinates of y[DIM / 8].
INLINE void hadamard_blocks(float8 *y)
{
    for (int step = 8; step < DIM / 8; step *= 2)
        for (int block = 0; block < DIM / 8; block += 2 * step)
#pragma unroll
            for (int i = block; i < block + step; i++)
                BUTTERFLY(y[i], y[i + step])
}

INLINE float sum8(float8 v)
{
    float4 four = v.lo + v.hi;
    float2 two = four.lo + four.hi;
    return two.x + two.y;
}

// The codes of coordinates 64 block ... 64 block + 63: lane l gets those from 64 block + 8 l, the
// first lowest, in 8 `bits` bits. Rows start where an unsigned integer may.
INLINE uint8 load_block(__global const uchar *row, int block, int bits)
{
    __global const uchar *at = row + block * 8 * bits;
    if (bits == 4)
        return ((__global const uint8 *)at)[0];
    if (bits == 3) {
        __global const uint2 *pairs = (__global const uint2 *)at;
        uint2 a = pairs[0], b = pairs[1], c = pairs[2];
        return (uint8)(a.x, a.x >> 24 | a.y << 8, a.y >> 16 | b.x << 16, b.x >> 8,
                       b.y, b.y >> 24 | c.x << 8, c.x >> 16 | c.y << 16, c.y >> 8);
    }
    if (bits == 2) {
        uint4 a = ((__global const uint4 *)at)[0];
        return (uint8)(a.x, a.x >> 16, a.y, a.y >> 16, a.z, a.z >> 16, a.w, a.w >> 16);
    }
    uint2 a = ((__global const uint2 *)at)[0];
    return (uint8)(a.x, a.x >> 8, a.x >> 16, a.x >> 24, a.y, a.y >> 8, a.y >> 16, a.y >> 24);
}

// The inverse of `load_block`; bits above 8 `bits` of a lane must be 0.
INLINE void store_block(__global uchar *row, int block, int bits, uint8 v)
{
    __global uchar *at = row + block * 8 * bits;
    if (bits == 4) {
        ((__global uint8 *)at)[0] = v;
    } else if (bits == 3) {
        ((__global uint2 *)at)[0] = (uint2)(v.s0 | v.s1 << 24, v.s1 >> 8 | v.s2 << 16);
        ((__global uint2 *)at)[1] = (uint2)(v.s2 >> 16 | v.s3 << 8, v.s4 | v.s5 << 24);
        ((__global uint2 *)at)[2] = (uint2)(v.s5 >> 8 | v.s6 << 16, v.s6 >> 16 | v.s7 << 8);
    } else if (bits == 2) {
        ((__global uint4 *)at)[0] = v.even | v.odd << 16;
    } else {
        uint4 pairs = v.even | v.odd << 8;
        ((__global uint2 *)at)[0] = pairs.even | pairs.odd << 16;
    }
}

// The levels of the lowest `bits` bits, 1..4, of each lane. The table is odd, so that its upper
// half says it all: `upper[k]` is level 2^(bits-1) + k. Selections instead of a gather.
INLINE float8 look_up(uint8 index, int bits, const float *upper)
{
    int8 below = ~as_int8(index << (uint)(32 - bits)) >> 31;  // -1 where the level is negative
    int8 k = as_int8(index) ^ below;
    float8 level = upper[0];
    if (bits >= 2) {
        int8 first = k << 31;
        level = first < 0 ? (float8)upper[1] : level;
        if (bits >= 3) {
            int8 second = k << 30;
            level = second < 0 ? (first < 0 ? (float8)upper[3] : (float8)upper[2]) : level;
            if (bits == 4) {
                float8 low = first < 0 ? (float8)upper[5] : (float8)upper[4];
                float8 high = first < 0 ? (float8)upper[7] : (float8)upper[6];
                level = k << 29 < 0 ? (second < 0 ? high : low) : level;
            }
        }
    }
    return as_float8(as_uint8(level) ^ (as_uint8(below) & 0x80000000u));
}

// The upper half of a table of 2^bits levels, as `look_up` wants it.
INLINE void take_upper(__global const float *levels, int bits, float *upper)
{
    int count = 1 << bits >> 1;
#pragma unroll
    for (int k = 0; k < count; k++)
        upper[k] = levels[count + k];
}

// ---- rows of codes against queries, without decoding them ----

#ifndef QUERIES
#define QUERIES 1  // that one pass over the codes serves, a power of two
#endif
#define SIMD_ROWS(bits) (LANES == 1 && LITTLE_ENDIAN && DIM % 64 == 0 && (bits) <= 4)

// Queries start ... start + QUERIES - 1 of (count, DIM), "along" the registers, query by query for
// each register. One that is not there repeats the last.
INLINE void take_queries(__global const float *queries, int start, int count, float8 *taken)
{
    for (int m = 0; m < QUERIES; m++) {
        __global const float8 *row =
            (__global const float8 *)(queries + (size_t)min(start + m, count - 1) * DIM);
        for (int b = 0; b < DIM / 64; b++) {
            float8 v[8];
            for (int j = 0; j < 8; j++)
                v[j] = row[8 * b + j];
            transpose8(v);
            for (int j = 0; j < 8; j++)
                taken[(8 * b + j) * QUERIES + m] = v[j];
        }
    }
}

// Rows of codes that share the loads of a query, and of a sum.
#define FOUR 4

// Rows n ... n + 3 of the codes as levels, row by row for each register. One that is not there
// repeats the last.
INLINE void take_rows(__global const uchar *codes, int row_bytes, int bits, const float *upper, int n,
                      int count, float8 *rows)
{
    for (int k = 0; k < FOUR; k++) {
        __global const uchar *row = codes + (size_t)min(n + k, count - 1) * row_bytes;
        for (int b = 0; b < DIM / 64; b++) {
            uint8 packed = load_block(row, b, bits);
#pragma unroll
            for (int j = 0; j < 8; j++)
                rows[(8 * b + j) * FOUR + k] = look_up(packed >> (uint)(bits * j), bits, upper);
        }
    }
}

// The products of four rows with queries m and m + 1 (with m alone if QUERIES == 1): lane k those
// of row k, lane 4 + k those with the second query.
INLINE float8 multiply_rows(const float8 *rows, const float8 *taken, int m)
{
#pragma OPENCL FP_CONTRACT ON
    float8 v[8];
#pragma unroll
    for (int k = 0; k < 8; k++)
        v[k] = 0;
    for (int r = 0; r < DIM / 8; r++) {
        float8 first = taken[r * QUERIES + m];
#pragma unroll
        for (int k = 0; k < FOUR; k++)
            v[k] += rows[r * FOUR + k] * first;
#if QUERIES > 1
        float8 second = taken[r * QUERIES + m + 1];
#pragma unroll
        for (int k = 0; k < FOUR; k++)
            v[4 + k] += rows[r * FOUR + k] * second;
#endif
    }
    transpose8(v);
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

// The products of one row of levels with the queries, added to `sums`: for any DIM and `bits`.
INLINE void multiply_row(__global const uchar *row, int bits, __global const float *levels,
                         __global const float *queries, int start, int count, float *sums)
{
    for (int g = 0; g < GROUPS; g++) {
        ulong word = load_group(row, g, bits);
        for (int j = 0; j < 8 && 8 * g + j < DIM; j++) {
            float level = levels[word >> (bits * j) & ((1u << bits) - 1)];
#if DIM < 8
#pragma unroll 1  // else Intel's compiler makes code that crashes: DIM == 5, QUERIES == 8
#endif
            for (int m = 0; m < QUERIES; m++)
                sums[m] += level * queries[(size_t)min(start + m, count - 1) * DIM + 8 * g + j];
        }
    }
}

// Estimates of <q, x>, x of norm 1, for row n of the codes and each query: what `multiply_row` finds
// of the table, and of the sketch. `levels` are those of the table and then those of a sign.
INLINE void estimate_row(__global const uchar *codes, __global const uchar *signs,
                         __global const float *residual_norms, float scale,
                         __global const float *levels, __global const float *queries,
                         __global const float *projected, int n, int start, int count,
                         float *result)
{
    for (int m = 0; m < QUERIES; m++)
        result[m] = 0;
#if SKETCH > 0
    multiply_row(signs + (size_t)n * GROUPS, 1, levels + LEVELS, projected, start, count, result);
    for (int m = 0; m < QUERIES; m++)
        result[m] *= residual_norms[n] * scale;
#endif
#if BITS > 0
    multiply_row(codes + (size_t)n * ROW_BYTES, BITS, levels, queries, start, count, result);
#endif
}
