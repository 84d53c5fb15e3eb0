/* turboquant-mse in C, held against the golden vectors. Reads them without any library.
 *
 *   cc -O2 -std=c11 turboquant.c -lm -o turboquant
 *   kvassay vectors --exec ./turboquant --group encode --group decode --group scores
 *
 * It is called as  turboquant VECTORS.json ANSWERS.json  and also writes ANSWERS.json.bin.
 * -DBUG=1, 2 or 3 puts in a fault that the vectors find: signs after the transform, the level
 * below in place of the nearest, the norm without its square root. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef BUG
#define BUG 0
#endif

/* JSON: where the value of a key begins in an object, and where a value ends. */
static const char *space(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == ',' || *p == ':') p++;
    return p;
}
static const char *past(const char *p) {
    int depth = 0;
    for (p = space(p);; p++) {
        if (*p == '"') {
            for (p++; *p != '"'; p++) p += *p == '\\';
        } else if (*p == '{' || *p == '[') depth++;
        else if (*p == '}' || *p == ']') depth--;
        else if (depth || (*p && !strchr(",} ]\n", p[1]))) continue;
        if (depth <= 0) return p + 1;
    }
}
static const char *get(const char *object, const char *key) {
    if (!object) return NULL;
    for (const char *p = space(object + 1); *p == '"'; p = space(past(p))) {
        const char *name = p + 1;
        p = space(past(p));
        if (!strncmp(name, key, strlen(key)) && name[strlen(key)] == '"') return p;
    }
    return NULL;
}
static long number(const char *object, const char *key) {
    const char *p = get(object, key);
    return p ? atol(p) : 0;
}
static int is(const char *p, const char *text) { return p && !strncmp(p + 1, text, strlen(text)); }

static char *slurp(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) { fprintf(stderr, "%s cannot be read\n", path); exit(1); }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *content = calloc(size + 1, 1);
    if (fread(content, 1, size, file) != (size_t)size) exit(1);
    fclose(file);
    return content;
}

/* The codec. Everything random is given: the signs, and the table. */
static void transform(float *x, int d) { /* Walsh-Hadamard in natural order, over sqrt(d) */
    for (int half = 1; half < d; half *= 2)
        for (int i = 0; i < d; i++)
            if (!(i & half)) {
                float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (int i = 0; i < d; i++) x[i] /= sqrtf((float)d);
}
static void rotate(float *x, const int8_t *signs, int d) {
    if (BUG != 1) for (int i = 0; i < d; i++) x[i] *= signs[i];
    transform(x, d);
    if (BUG == 1) for (int i = 0; i < d; i++) x[i] *= signs[i];
}
static void unrotate(float *y, const int8_t *signs, int d) {
    if (BUG == 1) for (int i = 0; i < d; i++) y[i] *= signs[i];
    transform(y, d);
    if (BUG != 1) for (int i = 0; i < d; i++) y[i] *= signs[i];
}
static float encode(const float *x, const int8_t *signs, const float *levels, int count, int d,
                    uint8_t *indices) {
    double energy = 0; /* squares of float32 may leave float32 */
    for (int i = 0; i < d; i++) energy += (double)x[i] * x[i];
    double norm = sqrt(energy);
    float y[1024];
    for (int i = 0; i < d; i++) y[i] = norm > 0 ? (float)(x[i] / norm) : 0;
    rotate(y, signs, d);
    for (int i = 0; i < d; i++) {
        int k = 0;
        while (k + 1 < count && y[i] >= (BUG == 2 ? levels[k + 1] : (levels[k] + levels[k + 1]) / 2))
            k++;
        indices[i] = (uint8_t)k;
    }
    return (float)(BUG == 3 ? energy : norm);
}
static void decode(const uint8_t *indices, float norm, const int8_t *signs, const float *levels, int d,
                   float *x) {
    for (int i = 0; i < d; i++) x[i] = levels[indices[i]];
    unrotate(x, signs, d);
    for (int i = 0; i < d; i++) x[i] *= norm;
}
static void score(const float *q, const uint8_t *indices, const float *norms, long n,
                  const int8_t *signs, const float *levels, int d, float *out) {
    float rotated[1024]; /* the query is rotated, not each key */
    memcpy(rotated, q, d * sizeof *q);
    rotate(rotated, signs, d);
    for (long j = 0; j < n; j++) {
        double sum = 0;
        for (int i = 0; i < d; i++) sum += (double)rotated[i] * levels[indices[j * d + i]];
        out[j] = (float)(sum * norms[j]);
    }
}

static FILE *text, *raw;
static void put(const char *name, const char *dtype, const void *data, size_t size, long rows,
                long columns) {
    fprintf(text, "\"%s\": {\"dtype\": \"%s\", \"shape\": [%ld", name, dtype, rows);
    if (columns >= 0) fprintf(text, ", %ld", columns);
    fprintf(text, "], \"offset\": %ld}", ftell(raw));
    fwrite(data, size, (size_t)(rows * (columns < 0 ? 1 : columns)), raw);
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "usage: turboquant VECTORS.json ANSWERS.json\n"); return 2; }
    char *file = slurp(argv[1]), path[4096];
    const char *slash = strrchr(argv[1], '/'), *named = get(file, "data") + 1;
    snprintf(path, sizeof path, "%.*s%.*s", (int)(slash ? slash + 1 - argv[1] : 0), argv[1],
             (int)strcspn(named, "\""), named);
    char *data = slurp(path);
    snprintf(path, sizeof path, "%s.bin", argv[2]);
    text = fopen(argv[2], "wb"), raw = fopen(path, "wb");
    if (!text || !raw) { fprintf(stderr, "%s cannot be written\n", argv[2]); return 1; }
    slash = strrchr(path, '/');
    fprintf(text, "{\"data\": \"%s\", \"answers\": [", slash ? slash + 1 : path);
    const char *group = get(file, "group"), *comma = "\n";
    for (const char *p = space(get(file, "vectors") + 1); *p == '{'; p = space(past(p)), comma = ",\n") {
        const char *about = get(p, "parameters"), *inputs = get(p, "inputs");
        const char *x = get(inputs, "x"), *q = get(inputs, "q"), *norms = get(inputs, "norms");
        fprintf(text, "%s{\"id\": \"%.16s\", ", comma, get(p, "id") + 1);
        int d = (int)number(about, "dim"), count = 1 << number(about, "bits");
        if (!is(get(about, "kind"), "turboquant-mse") || get(about, "rotation") ||
            get(about, "scale") || (d & (d - 1)) || d > 1024 ||
            !(is(group, "encode") || is(group, "decode") || is(group, "scores"))) {
            fprintf(text, "\"skipped\": \"only turboquant-mse at powers of two here\"}");
            continue;
        }
        const int8_t *signs = (int8_t *)data + number(get(inputs, "signs"), "offset");
        const float *levels = (float *)(data + number(get(inputs, "levels"), "offset"));
        const uint8_t *indices = (uint8_t *)data + number(get(inputs, "indices"), "offset");
        const float *given = (float *)(data + number(x ? x : norms, "offset"));
        const float *queries = (float *)(data + number(q, "offset"));
        long n = atol(get(x ? x : norms, "shape") + 1), m = q ? atol(get(q, "shape") + 1) : 0;
        fprintf(text, "\"outputs\": {");
        float *out = calloc((size_t)(n * (d > m ? d : m) + 1), sizeof *out);
        uint8_t *made = calloc((size_t)(n * d + 1), 1);
        if (is(group, "encode")) {
            for (long j = 0; j < n; j++)
                out[j] = encode(given + j * d, signs, levels, count, d, made + j * d);
            put("indices", "uint8", made, 1, n, d);
            fprintf(text, ", ");
            put("norms", "float32", out, 4, n, -1);
        } else if (is(group, "decode")) {
            for (long j = 0; j < n; j++) decode(indices + j * d, given[j], signs, levels, d, out + j * d);
            put("x", "float32", out, 4, n, d);
        } else {
            for (long i = 0; i < m; i++)
                score(queries + i * d, indices, given, n, signs, levels, d, out + i * n);
            put("scores", "float32", out, 4, m, n);
        }
        fprintf(text, "}}");
        free(out), free(made);
    }
    fprintf(text, "\n]}\n");
    return fclose(text) || fclose(raw);
}
