# SPDX-License-Identifier: Apache-2.0
"""The operators of Keel, each said once: number, tensors, attributes, dtypes, meaning.

generate.py writes from here include/keel/ops.h, op_calls.h and ops.hpp (numbers, attributes, named
calls) and ops/schema_table.cc, from which the checks of calls, docs/operators.md and the
conformance cases come. A number is never reused. row.py describes the notation.
"""

from row import (ANY, BELOW_ONE, INFINITY, boolean, enumerator, integer, number, of_floats,
                 of_other_pairs, operator, tensor)

# ---- attributes of several operators

ALPHA = [
    number("alpha", 1, ANY, "the factor of x"),
]

FORM = [
    enumerator("form", "gelu_form",
               "0: gelu(t) = 0.5 t (1 + tanh(sqrt(2/pi) (t + 0.044715 t^3))); 1: 0.5 t (1 + "
               "erf(t/sqrt(2)))"),
]

FIRST_ROW = [
    integer("first", 0, (0, 2**31 - 1),
            "the index of the table's row 0; first + v is at most 2^31"),
]

EPS = [
    number("eps", 1e-05, (0, INFINITY),
           "added to the variance (layer_norm) or mean square (rms_norm) under the square "
           "root"),
]

DROPOUT = [
    number("p", 0.1, (0, BELOW_ONE), "the probability of dropping an element"),
    integer("seed", 0, ANY, "the key of Philox"),
    integer("offset", 0, (0, 2**63),
            "the counter of Philox at element 0; a call on n elements uses n/4 counters, "
            "rounded up"),
]

ATTENTION = [
    number("scale", 1, ANY, "the factor of the scores, usually 1/sqrt(d)"),
    boolean("causal", "1: query i of a sequence sees its keys j <= i + len_k - len_q"),
    number("p", 0, (0, BELOW_ONE), "the probability of dropping a weight"),
    integer("seed", 0, ANY, "the key of Philox"),
    integer("offset", 0, (0, 2**63),
            "the counter of Philox at weight 0; a call uses heads * tokens_q * (tokens_k/4, "
            "rounded up) counters if p is not 0"),
]

# ---- operators

operator(
    "fill", 1,
    "y = value",
    outputs=[tensor("y", "any")],
    attributes=[
        number("value", 0, ANY,
               "for a float y, converted to float32 and then to y's dtype; for an integer y, "
               "truncated, and must fit y's dtype"),
    ],
    dtypes=[
        "-> f32: rounded_once",
        "-> f16: rounded_once, optional",
        "-> bf16: rounded_once, optional",
        "-> i32: rounded_once",
        "-> i64: rounded_once, optional",
        "-> u8: rounded_once, optional",
    ],
)

operator(
    "cast", 2,
    "y = x in another dtype: rounded to nearest, ties to even, floats overflow to infinity, "
    "integers become 16-bit floats by way of float32. Floats are truncated to integers, and "
    "integers wrap; unspecified for NaN and beyond int32's range, for an int64 y beyond int64's",
    inputs=[tensor("x", "any")],
    outputs=[tensor("y", "as x")],
    # The pairs of models come first: conformance tries them in more shapes than the other pairs.
    dtypes=[
        "f32 -> bf16: rounded_once",
        "bf16 -> f32: rounded_once",
        "f32 -> f16: rounded_once",
        "f16 -> f32: rounded_once",
        "f16 -> bf16: rounded_once, optional",
        "bf16 -> f16: rounded_once, optional",
        "f32 -> i32: moved, optional",
        "i32 -> f32: rounded_once, optional",
        *of_other_pairs("f32 bf16 f16 f64 i64 i32 i16 i8 u8",
                        "f32_bf16 bf16_f32 f32_f16 f16_f32 f16_bf16 bf16_f16 f32_i32 i32_f32"),
    ],
    shapes="elementwise",
)

operator(
    "add", 3,
    "c = a + b, computed in float32 and rounded once",
    inputs=[tensor("a", "any"), tensor("b", "as a")],
    outputs=[tensor("c", "as a", may_be=["a", "b"])],
    dtypes=[
        "f32 f32 -> f32: rounded_once",
        "f16 f16 -> f16: rounded_once, optional",
        "bf16 bf16 -> bf16: rounded_once, optional",
    ],
    shapes="elementwise",
)

operator(
    "scale", 4,
    "y = alpha * x",
    inputs=[tensor("x", "any")],
    outputs=[tensor("y", "as x", may_be=["x"])],
    attributes=ALPHA,
    dtypes=[
        "f32 -> f32: few_roundings",
        "f16 -> f16: few_roundings, optional",
        "bf16 -> bf16: few_roundings, optional",
    ],
    shapes="elementwise",
)

operator(
    "axpy", 5,
    "out = alpha * x + y",
    inputs=[tensor("x", "any"), tensor("y", "as x")],
    outputs=[tensor("out", "as x", may_be=["y"])],
    attributes=ALPHA,
    dtypes=[
        "f32 f32 -> f32: few_roundings",
        "bf16 f32 -> f32: few_roundings, optional",
    ],
    shapes="elementwise",
)

operator(
    "sum", 6,
    "y = sum of x along an axis; the order of summation is fixed for a shape",
    inputs=[tensor("x", "[rows,cols]")],
    outputs=[tensor("y", "[cols], [rows] or []")],
    attributes=[
        integer("axis", -1, (-1, 1),
                "0: over the rows, y is [cols]; 1: over the columns, y is [rows]; -1: over all "
                "elements, y is []"),
    ],
    dtypes=[
        "f32 -> f32: few_roundings",
        "bf16 -> bf16: few_roundings, optional",
        "bf16 -> f32: few_roundings, optional",
        "f16 -> f16: few_roundings, optional",
        "f16 -> f32: few_roundings, optional",
    ],
    accumulation="f32",
)

operator(
    "matmul", 7,
    "c = activation(alpha * op(a) op(b) + beta * c + bias), where op transposes an operand "
    "stored transposed; bias is added to every row",
    inputs=[
        tensor("a", "[m,k]; [k,m] if trans_a"),
        tensor("b", "[k,n]; [n,k] if trans_b"),
        tensor("bias", "[n]", optional=True),
    ],
    outputs=[tensor("c", "[m,n]", read_if="beta is not 0")],
    attributes=[
        boolean("trans_a", "1: a is stored transposed"),
        boolean("trans_b", "1: b is stored transposed"),
        number("alpha", 1, ANY, "the factor of the product"),
        number("beta", 0, ANY,
               "the factor of c's old content; with 0, c's old content is not read"),
        enumerator("activation", "activation",
                   "applied to the float32 sum before rounding to c: 0: none; 1: gelu by tanh; "
                   "2: gelu by erf, both as in bias_gelu; 3: silu(t) = t / (1 + exp(-t))"),
    ],
    dtypes=[
        "f32 f32 f32 -> f32: few_roundings",
        "bf16 bf16 bf16 -> bf16: matrix_unit, optional",
        "bf16 bf16 bf16 -> f32: matrix_unit, optional",
        "f16 f16 f16 -> f16: matrix_unit, optional",
        "f16 f16 f16 -> f32: matrix_unit, optional",
    ],
    accumulation="f32",
)

operator(
    "gelu", 8,
    "y = gelu(x)",
    inputs=[tensor("x", "any")],
    outputs=[tensor("y", "as x", may_be=["x"])],
    attributes=FORM,
    dtypes=of_floats("t -> t: transcendental"),
    shapes="elementwise",
)

operator(
    "gelu_backward", 9,
    "dx = dy * gelu'(x)",
    inputs=[tensor("x", "any"), tensor("dy", "as x")],
    outputs=[tensor("dx", "as x", may_be=["dy"])],
    attributes=FORM,
    dtypes=of_floats("t t -> t: transcendental"),
    shapes="elementwise",
)

operator(
    "embedding", 10,
    "out[i] = table[indices[i]-first], bit for bit; an index outside [first,first+v) gives a "
    "row of zeroes. For a sharded table, with a range of rows on each rank, all_reduce(out, by "
    "sum) gives the rows of the whole table",
    inputs=[tensor("table", "[v,d]"), tensor("indices", "[n]")],
    outputs=[tensor("out", "[n,d]")],
    attributes=FIRST_ROW,
    dtypes=of_floats("t i32 -> t: copied"),
)

operator(
    "embedding_backward", 11,
    "dtable[j] = sum of dout[i] over all i with indices[i] == first + j, in the order of i; "
    "every row is written; indices outside [first,first+v) contribute to no row",
    inputs=[tensor("dout", "[n,d]"), tensor("indices", "[n]")],
    outputs=[tensor("dtable", "[v,d]")],
    attributes=FIRST_ROW,
    dtypes=of_floats("t i32 -> f32: few_roundings"),
    accumulation="f32",
)

operator(
    "cross_entropy", 12,
    "logsumexp[i] = log sum_j exp(logits[i,j]); loss[i] = logsumexp[i] - logits[i,labels[i]]; a "
    "label outside [0,v) marks an ignored row, whose loss is 0",
    inputs=[tensor("logits", "[n,v], v >= 1"), tensor("labels", "[n]")],
    outputs=[tensor("loss", "[n]"), tensor("logsumexp", "[n]")],
    dtypes=of_floats("t i32 -> f32 f32: transcendental"),
    accumulation="f32",
)

operator(
    "cross_entropy_backward", 13,
    "dlogits[i,j] = scale * (p[i,j] - (j == labels[i])), p[i,j] = exp(logits[i,j] - "
    "logsumexp[i]); ignored rows give 0. If |logsumexp[i]| >= 64 and logsumexp[i] differs from "
    "the value recomputed from row i by less than 2^-17 * |logsumexp[i]|, the kernel uses the "
    "recomputed value, unrounded: p then adds up to 1, whatever offset the logits of a row "
    "share",
    inputs=[tensor("logits", "[n,v]"), tensor("labels", "[n]"), tensor("logsumexp", "[n]")],
    outputs=[tensor("dlogits", "[n,v]", may_be=["logits"])],
    attributes=[
        number("scale", 1, ANY, "the gradient of each row's loss: 1/n for a mean loss"),
    ],
    dtypes=of_floats("t i32 f32 -> t: transcendental"),
)

operator(
    "adamw", 14,
    "g' = grad_scale * g; m_out = beta1 m + (1-beta1) g'; v_out = beta2 v + (1-beta2) g'^2; "
    "p_out = p - lr (m_out/(1-beta1^t) / (sqrt(v_out/(1-beta2^t)) + eps) + weight_decay p). "
    "Kernels compute 1-beta and 1-beta^t in float64 and then round: in float32 1-0.999 would "
    "lose 10 bits",
    inputs=[tensor("p", "any"), tensor("g", "as p"), tensor("m", "as p"), tensor("v", "as p")],
    outputs=[
        tensor("p_out", "as p", may_be=["p"]),
        tensor("m_out", "as p", may_be=["m"]),
        tensor("v_out", "as p", may_be=["v"]),
    ],
    attributes=[
        number("lr", 0.001, (0, 1e+30), "learning rate"),
        number("beta1", 0.9, (0, BELOW_ONE), "decay of m"),
        number("beta2", 0.999, (0, BELOW_ONE), "decay of v"),
        number("eps", 1e-08, (0, 1e+30), "added to the square root of v"),
        number("weight_decay", 0.01, (0, 1e+30), "decoupled from the gradient"),
        integer("step", 1, (1, 2**53), "t, counted from 1"),
        number("grad_scale", 1, ANY, "multiplies g first"),
    ],
    dtypes=of_floats("f32 t f32 f32 -> f32 f32 f32: update"),
    shapes="elementwise",
)

operator(
    "layer_norm", 15,
    "for each row of x: mean and variance v over the row's d elements, rstd = 1 / sqrt(v + "
    "eps), y = (x - mean) * rstd * gamma + beta. x may have any finite size: where squares "
    "would leave the range of float32, the kernel squares scaled elements",
    inputs=[
        tensor("x", "[..., d], d >= 1"),
        tensor("gamma", "[d]"),
        tensor("beta", "[d]", optional=True),
    ],
    outputs=[tensor("y", "as x", may_be=["x"]), tensor("mean", "[...]"), tensor("rstd", "[...]")],
    attributes=EPS,
    dtypes=of_floats("t t t -> t f32 f32: amplified"),
    accumulation="f32",
)

operator(
    "layer_norm_backward", 16,
    "with xhat = (x - mean) * rstd, g = dy * gamma and <> the mean over a row: dx = rstd * (g - "
    "<g> - xhat * <g * xhat>); dgamma = sum of dy * xhat over all rows, dbeta = sum of dy over "
    "all rows, in an order that is fixed for a shape. Overflow of x - mean or xhat is not "
    "avoided by scaling, and an rstd below 2^-126 (from an x beyond 2^126) may be treated as 0",
    inputs=[
        tensor("dy", "[..., d], d >= 1"),
        tensor("x", "as dy"),
        tensor("gamma", "[d]"),
        tensor("mean", "[...]"),
        tensor("rstd", "[...]"),
    ],
    outputs=[tensor("dx", "as dy", may_be=["dy"]), tensor("dgamma", "[d]"), tensor("dbeta", "[d]")],
    dtypes=of_floats("t t t f32 f32 -> t f32 f32: amplified"),
    accumulation="f32",
)

operator(
    "rms_norm", 17,
    "for each row of x: rstd = 1 / sqrt(mean of x^2 + eps), y = x * rstd * gamma. x may have "
    "any finite size, as in layer_norm",
    inputs=[tensor("x", "[..., d], d >= 1"), tensor("gamma", "[d]")],
    outputs=[tensor("y", "as x", may_be=["x"]), tensor("rstd", "[...]")],
    attributes=EPS,
    dtypes=of_floats("t t -> t f32: amplified"),
    accumulation="f32",
)

operator(
    "rms_norm_backward", 18,
    "with xhat = x * rstd, g = dy * gamma and <> the mean over a row: dx = rstd * (g - xhat * "
    "<g * xhat>); dgamma = sum of dy * xhat over all rows, in an order that is fixed for a "
    "shape. The limits of xhat and rstd are as in layer_norm_backward",
    inputs=[
        tensor("dy", "[..., d], d >= 1"),
        tensor("x", "as dy"),
        tensor("gamma", "[d]"),
        tensor("rstd", "[...]"),
    ],
    outputs=[tensor("dx", "as dy", may_be=["dy"]), tensor("dgamma", "[d]")],
    dtypes=of_floats("t t t f32 -> t f32: amplified"),
    accumulation="f32",
)

operator(
    "softmax", 19,
    "y = exp(scale * x) / sum of exp(scale * x) over the visible elements of a row. y is 0 "
    "where mask is not 0, where causal hides the column and where scale * x is minus infinity; "
    "a row without visible elements gives zeroes",
    inputs=[tensor("x", "[..., m, n]"), tensor("mask", "[m,n], or as x", optional=True)],
    outputs=[tensor("y", "as x", may_be=["x"])],
    attributes=[
        number("scale", 1, ANY, "the factor of x"),
        boolean("causal", "1: row i of m sees the columns j <= i + n - m"),
    ],
    dtypes=of_floats("t u8 -> t: transcendental"),
    accumulation="f32",
)

operator(
    "softmax_backward", 20,
    "dx = scale * y * (dy - sum of y * dy over the row)",
    inputs=[tensor("y", "[..., n]"), tensor("dy", "as y")],
    outputs=[tensor("dx", "as y", may_be=["dy"])],
    attributes=[
        number("scale", 1, ANY, "the factor of softmax's x"),
    ],
    dtypes=of_floats("t t -> t: amplified"),
    accumulation="f32",
)

operator(
    "swiglu", 21,
    "y = silu(gate) * up, silu(t) = t / (1 + exp(-t)); gate and up are the halves of each row "
    "of x = gate | up, as written by one product with both matrices side by side",
    inputs=[tensor("x", "[n,2d]")],
    outputs=[tensor("y", "[n,d]")],
    dtypes=of_floats("t -> t: transcendental"),
)

operator(
    "swiglu_backward", 22,
    "dx = dy * up * silu'(gate) | dy * silu(gate)",
    inputs=[tensor("x", "[n,2d]"), tensor("dy", "[n,d]")],
    outputs=[tensor("dx", "[n,2d]", may_be=["x"])],
    dtypes=of_floats("t t -> t: transcendental"),
)

operator(
    "bias_gelu", 23,
    "y = gelu(x + bias); bias is added to every row, and an absent bias counts as 0",
    inputs=[tensor("x", "[n,d]"), tensor("bias", "[d]", optional=True)],
    outputs=[tensor("y", "[n,d]", may_be=["x"])],
    attributes=FORM,
    dtypes=of_floats("t t -> t: transcendental"),
)

operator(
    "bias_gelu_backward", 24,
    "dx = dy * gelu'(x + bias); the gradient of bias is the sum of dx over the rows",
    inputs=[tensor("x", "[n,d]"), tensor("bias", "[d]", optional=True), tensor("dy", "[n,d]")],
    outputs=[tensor("dx", "[n,d]", may_be=["x", "dy"])],
    attributes=FORM,
    dtypes=of_floats("t t t -> t: transcendental"),
)

operator(
    "rope", 25,
    "rotates each pair (a, b) of a head to (a c - b s, b c + a s): pair j of token t has c = "
    "cos[positions[t],j] and s = sin[positions[t],j], negated if inverse; a token whose "
    "position is outside the table's rows gives zeroes",
    inputs=[
        tensor("x", "[tokens,heads,d], d even"),
        tensor("cos", "[positions,d/2]"),
        tensor("sin", "as cos"),
        tensor("positions", "[tokens]"),
    ],
    outputs=[tensor("y", "as x", may_be=["x"])],
    attributes=[
        boolean("interleaved",
                "0: pair j is elements j and j + d/2 of a head; 1: pair j is elements 2j and 2j "
                "+ 1"),
        boolean("inverse", "1: rotates back, as for the gradient"),
    ],
    dtypes=of_floats("t f32 f32 i32 -> t: few_roundings"),
)

operator(
    "dropout_add", 26,
    "y = residual + kept / (1 - p) * (x + bias), where kept is 0 or 1; bias is added to every "
    "row, an absent bias or residual counts as 0, and a dropped x + bias contributes 0 even if "
    "NaN. Element i in row-major order is kept if word i % 4 of Philox4x32-10, with counter "
    "(offset + i / 4) modulo 2^64 and key seed, is at least floor(p * 2^32): the same elements "
    "on every device",
    inputs=[
        tensor("x", "any"),
        tensor("bias", "[last axis of x]", optional=True),
        tensor("residual", "as x", optional=True),
    ],
    outputs=[tensor("y", "as x", may_be=["x", "residual"])],
    attributes=DROPOUT,
    dtypes=of_floats("t t t -> t: few_roundings"),
)

operator(
    "dropout_backward", 27,
    "dx = kept / (1 - p) * dy, where kept is as in dropout_add with the same attributes; the "
    "gradient of bias is the sum of dx over the rows, the gradient of residual is dy",
    inputs=[tensor("dy", "any")],
    outputs=[tensor("dx", "as dy", may_be=["dy"])],
    attributes=DROPOUT,
    dtypes=of_floats("t -> t: few_roundings"),
    shapes="elementwise",
)

operator(
    "transpose", 28,
    "y = x with the axes of x in another order: y[i0,i1,...] = x[j0,j1,...] where the index "
    "along axis order[k] of x is ik. The kernel copies bits unchanged, NaN included",
    inputs=[tensor("x", "any")],
    outputs=[tensor("y", "x's, its axes in the order")],
    attributes=[
        integer("order", 0, (0, 0x76543210),
                "one hexadecimal digit per axis of y, the first axis in the most significant "
                "digit: the axis of x that becomes this axis of y. 0x10 transposes a matrix, "
                "0x021 swaps the last two axes of three"),
    ],
    dtypes=[
        "f32 -> f32: moved",
        "bf16 -> bf16: moved, optional",
        "f16 -> f16: moved, optional",
        "f64 -> f64: moved, optional",
        "e4m3 -> e4m3: moved, optional",
        "e5m2 -> e5m2: moved, optional",
        "i8 -> i8: moved, optional",
        "i16 -> i16: moved, optional",
        "i32 -> i32: moved, optional",
        "i64 -> i64: moved, optional",
        "u8 -> u8: moved, optional",
        "u16 -> u16: moved, optional",
        "u32 -> u32: moved, optional",
        "u64 -> u64: moved, optional",
    ],
)

operator(
    "cast_scaled", 29,
    "y = scale * x in another dtype; amax = the largest |x|, 0 for an empty x, NaN if an "
    "element is NaN. The product is rounded to float32 and then to y's dtype, to nearest, ties "
    "to even. Conversion to an 8-bit type saturates: values beyond the largest finite number, "
    "infinity included, become the largest finite number. For other types, overflow gives "
    "infinity. The kernel reads scale in stream order, so the caller can use the scale of an "
    "earlier step; to convert back, the caller passes the reciprocal of the scale",
    inputs=[tensor("x", "any"), tensor("scale", "[]")],
    outputs=[tensor("y", "as x"), tensor("amax", "[]")],
    dtypes=[
        # Each element is correctly rounded. The output as a whole has no further bound: numbers
        # below an 8-bit type's range all become zero.
        "f32 f32 -> e4m3 f32: rounded_once unbounded",
        "f32 f32 -> e5m2 f32: rounded_once unbounded",
        "e4m3 f32 -> f32 f32: rounded_once unbounded",
        "e5m2 f32 -> f32 f32: rounded_once unbounded",
        "bf16 f32 -> e4m3 f32: rounded_once unbounded, optional",
        "bf16 f32 -> e5m2 f32: rounded_once unbounded, optional",
        "f16 f32 -> e4m3 f32: rounded_once unbounded, optional",
        "f16 f32 -> e5m2 f32: rounded_once unbounded, optional",
        "e4m3 f32 -> bf16 f32: rounded_once unbounded, optional",
        "e5m2 f32 -> bf16 f32: rounded_once unbounded, optional",
        "e4m3 f32 -> f16 f32: rounded_once unbounded, optional",
        "e5m2 f32 -> f16 f32: rounded_once unbounded, optional",
    ],
)

operator(
    "attention", 30,
    "out[i,h] = sum over the keys j visible to query i of softmax_j(s[i,j]) v[j,g], s[i,j] = "
    "scale * q[i,h] . k[j,g] + mask[n,h,i',j'], g = h / (heads / kv_heads); logsumexp[h,i] = log "
    "sum_j exp(s[i,j]). A query sees the keys of its sequence. A query without visible keys, or "
    "with all scores -infinity, gives out = 0 and logsumexp = -infinity; keys and values that a "
    "query does not see contribute nothing, even if NaN. Sequence n is the tokens from "
    "cu_seqlens[n] up to, not including, cu_seqlens[n+1]. Each entry counts as the maximum of "
    "the entries up to and including it, clamped to [0,tokens]: whatever the entries are, "
    "sequences are disjoint, in order and within the tensors. Tokens before the first sequence "
    "and after the last belong to no sequence. The caller passes both cu_seqlens or neither; "
    "without them all tokens form one sequence. An omitted mask counts as 0. i' and j' count "
    "from the first query and key of the sequence, and an extent of 1 in place of batch, heads "
    "or len_q serves all sequences, heads or queries. Without cu_seqlens len_q and len_k are "
    "tokens_q and tokens_k; with them they are any: a query beyond len_q sees no key, and no "
    "query sees a key beyond len_k. A mask of -infinity gives a visible key a weight of 0; NaN "
    "in its key or value remains NaN. If p is not 0, the weight softmax_j(s[i,j]) is multiplied "
    "by kept / (1 - p), and logsumexp is as without: kept is as in dropout_add for element "
    "(h * tokens_q + i) * n + j, where i and j count from the first token of the call and n is "
    "tokens_k rounded up to a multiple of 4. The workspace grows with the number of tokens, not "
    "with tokens_q * tokens_k",
    inputs=[
        tensor("q", "[tokens_q,heads,d], 1 <= d <= 256"),
        tensor("k", "[tokens_k,kv_heads,d], heads % kv_heads == 0"),
        tensor("v", "as k"),
        tensor("cu_seqlens_q", "[batch+1]", optional=True),
        tensor("cu_seqlens_k", "[batch+1]", optional=True),
        tensor("mask", "[batch or 1,heads or 1,len_q or 1,len_k]", optional=True),
    ],
    outputs=[tensor("out", "as q"), tensor("logsumexp", "[heads,tokens_q]")],
    attributes=ATTENTION,
    dtypes=of_floats("t t t i32 i32 f32 -> t f32: transcendental"),
    accumulation="f32",
)

operator(
    "attention_backward", 31,
    "the gradients of attention from the inputs and outputs of attention: p[i,j] = exp(s[i,j] - "
    "logsumexp[i]) with the scores s of attention, mask included, ds[i,j] = p[i,j] * (m[i,j] "
    "dout[i] . v[j] - dout[i] . out[i]), dq[i] = scale * sum_j ds[i,j] k[j], dk[j] = scale * "
    "sum_i ds[i,j] q[i], dv[j] = sum_i m[i,j] p[i,j] dout[i], where m is attention's kept / "
    "(1 - p), with the same attributes, or 1, and i runs over the queries, of all heads of a "
    "group, that see key j; the order of summation is fixed for the shapes and cu_seqlens. A "
    "query whose logsumexp is -infinity has dq = 0 and contributes nothing to dk and dv. "
    "cu_seqlens and mask are as in attention; mask gets no gradient",
    inputs=[
        tensor("q", "[tokens_q,heads,d], 1 <= d <= 256"),
        tensor("k", "[tokens_k,kv_heads,d]"),
        tensor("v", "as k"),
        tensor("out", "as q"),
        tensor("dout", "as q"),
        tensor("logsumexp", "[heads,tokens_q]"),
        tensor("cu_seqlens_q", "[batch+1]", optional=True),
        tensor("cu_seqlens_k", "[batch+1]", optional=True),
        tensor("mask", "[batch or 1,heads or 1,len_q or 1,len_k]", optional=True),
    ],
    outputs=[tensor("dq", "as q"), tensor("dk", "as k"), tensor("dv", "as k")],
    attributes=ATTENTION,
    dtypes=of_floats("t t t t t f32 i32 i32 f32 -> t t t: transcendental"),
    accumulation="f32",
)

operator(
    "attention_merge", 32,
    "merges the attention of the same queries to two disjoint sets of keys, a and b: logsumexp "
    "= log(exp(lse_a) + exp(lse_b)), out = exp(lse_a - logsumexp) out_a + exp(lse_b - "
    "logsumexp) out_b; a side whose lse is -infinity contributes nothing, whatever that side's "
    "out holds; one whose lse is NaN or infinity makes the row and its logsumexp NaN",
    inputs=[
        tensor("out_a", "[tokens,heads,d]"),
        tensor("lse_a", "[heads,tokens]"),
        tensor("out_b", "as out_a"),
        tensor("lse_b", "as lse_a"),
    ],
    outputs=[
        tensor("out", "as out_a", may_be=["out_a"]),
        tensor("logsumexp", "as lse_a", may_be=["lse_a"]),
    ],
    dtypes=[
        "f32 f32 f32 f32 -> f32 f32: transcendental",
    ],
    accumulation="f32",
)

operator(
    "batched_matmul", 33,
    "c[i] = alpha * op(a[i]) op(b[i]) + beta * c[i] for each i of the batch, where op "
    "transposes an operand stored transposed; with a stride of 0 along the batch all products "
    "share one matrix",
    inputs=[
        tensor("a", "[batch,m,k]; [batch,k,m] if trans_a"),
        tensor("b", "[batch,k,n]; [batch,n,k] if trans_b"),
    ],
    outputs=[tensor("c", "[batch,m,n]", read_if="beta is not 0")],
    attributes=[
        boolean("trans_a", "1: the matrices of a are stored transposed"),
        boolean("trans_b", "1: the matrices of b are stored transposed"),
        number("alpha", 1, ANY, "the factor of the products"),
        number("beta", 0, ANY,
               "the factor of c's old content; with 0, c's old content is not read"),
    ],
    dtypes=[
        "f32 f32 -> f32: few_roundings",
        "bf16 bf16 -> bf16: matrix_unit, optional",
        "bf16 bf16 -> f32: matrix_unit, optional",
        "f16 f16 -> f16: matrix_unit, optional",
        "f16 f16 -> f32: matrix_unit, optional",
    ],
    accumulation="f32",
)

operator(
    "sum_of_squares", 34,
    "total = before + sum of x^2, in an order that is fixed for a shape; found = 1 if an "
    "element of x, or before, is NaN or infinite, else 0. An absent before counts as 0; before "
    "chains calls, so that many tensors make one norm. Squares beyond float32's range give an "
    "infinite total; the next call, with this total as before, sets found",
    inputs=[tensor("x", "any"), tensor("before", "[]", optional=True)],
    outputs=[tensor("total", "[]", may_be=["before"]), tensor("found", "[]")],
    dtypes=[
        # The scale is the total itself, for any number of terms: 10^8 terms summed one by one in
        # float32 would be far off.
        *of_floats("t f32 -> f32 i32: long_sum"),
    ],
    accumulation="f32",
)

operator(
    "clip", 35,
    "g_out = g * min(1, max_norm / (sqrt(sum_of_squares) + 1e-6)). If sum_of_squares is NaN, "
    "every element becomes NaN; if sum_of_squares is infinite, the factor is 0: finite elements "
    "become 0, all others NaN",
    inputs=[tensor("g", "any"), tensor("sum_of_squares", "[]")],
    outputs=[tensor("g_out", "as g", may_be=["g"])],
    attributes=[
        number("max_norm", 1, (0, 1e+30),
               "the largest norm that clip leaves unchanged"),
    ],
    dtypes=of_floats("t f32 -> t: update"),
)

operator(
    "cross_entropy_shard", 36,
    "max[i] = the largest of logits[i,:] except NaN, minus infinity if all are NaN; sum_exp[i] "
    "= sum_j exp(logits[i,j] - max[i]), 0 for a row of only minus infinity, NaN for a row with "
    "NaN or plus infinity; target[i] = logits[i,labels[i]-first], 0 if the shard does not have "
    "that column. The caller computes the cross entropy of the whole vocabulary: top = "
    "all_reduce(max, by max); total = all_reduce(sum_exp * exp(max - top), by sum), where a max "
    "of minus infinity adds 0; logsumexp = top + log(total); loss = logsumexp - "
    "all_reduce(target, by sum), and 0 in ignored rows, whose label is negative",
    inputs=[tensor("logits", "[n,v], v >= 1"), tensor("labels", "[n]")],
    outputs=[tensor("max", "[n]"), tensor("sum_exp", "[n]"), tensor("target", "[n]")],
    attributes=[
        integer("first", 0, (0, 2**31 - 1),
                "the vocabulary entry of the shard's column 0"),
    ],
    dtypes=of_floats("t i32 -> f32 f32 f32: transcendental"),
    accumulation="f32",
)

operator(
    "cross_entropy_shard_backward", 37,
    "dlogits[i,j] = scale * (exp(logits[i,j] - logsumexp[i]) - (first + j == labels[i])), with "
    "the logsumexp of the whole vocabulary. A negative label marks an ignored row, which gives "
    "0; any other label outside the shard belongs to another shard. exp(...) is only as "
    "accurate as logsumexp, which float32 rounds by up to 2^-24 * |logsumexp|",
    inputs=[tensor("logits", "[n,v]"), tensor("labels", "[n]"), tensor("logsumexp", "[n]")],
    outputs=[tensor("dlogits", "[n,v]", may_be=["logits"])],
    attributes=[
        number("scale", 1, ANY, "the gradient of each row's loss: 1/n for a mean loss"),
        integer("first", 0, (0, 2**31 - 1),
                "the vocabulary entry of the shard's column 0"),
    ],
    dtypes=of_floats("t i32 f32 -> t: transcendental"),
)

operator(
    "pack_weights", 38,
    "packed = op(b) in the element order that the device's own packed_matmul reads fastest, "
    "where op transposes an operand stored transposed. The device chooses the order and the "
    "content beyond k and n: only the device's own packed_matmul may read packed, and packed "
    "may not be moved to another device; after b changes, the caller packs b again",
    inputs=[tensor("b", "[k,n]; [n,k] if trans_b")],
    outputs=[tensor("packed", "[k,n], both rounded up to multiples of 64", packed=True)],
    attributes=[
        boolean("trans_b", "1: b is stored transposed"),
    ],
    dtypes=of_floats("t -> t: moved"),
)

operator(
    "packed_matmul", 39,
    "c = activation(alpha * op(a) b + beta * c + bias), where packed is the output of "
    "pack_weights for b [k,n] on the same device. If packed holds the weights of another b with "
    "the same packed shape, or no packed weights, the numbers in c are arbitrary",
    inputs=[
        tensor("a", "[m,k]; [k,m] if trans_a"),
        tensor("packed", "[k,n], both rounded up to multiples of 64", packed=True),
        tensor("bias", "[n]", optional=True),
    ],
    outputs=[tensor("c", "[m,n]", read_if="beta is not 0")],
    attributes=[
        boolean("trans_a", "1: a is stored transposed"),
        number("alpha", 1, ANY, "the factor of the product"),
        number("beta", 0, ANY,
               "the factor of c's old content; with 0, c's old content is not read"),
        enumerator("activation", "activation", "as in matmul"),
    ],
    dtypes=[
        "f32 f32 f32 -> f32: few_roundings",
        "bf16 bf16 bf16 -> bf16: matrix_unit, optional",
        "bf16 bf16 bf16 -> f32: matrix_unit, optional",
        "f16 f16 f16 -> f16: matrix_unit, optional",
        "f16 f16 f16 -> f32: matrix_unit, optional",
    ],
    accumulation="f32",
)

operator(
    "clamp", 40,
    "y = the smaller of max and the larger of min and x; the bounds are rounded to float32 first. "
    "NaN stays NaN, and a bound that is NaN does not bound",
    inputs=[tensor("x", "any")],
    outputs=[tensor("y", "as x", may_be=["x"])],
    attributes=[
        number("min", -INFINITY, ANY, "the lower bound"),
        number("max", INFINITY, ANY, "the upper bound, also where min is larger"),
    ],
    dtypes=of_floats("t -> t: rounded_once"),
    shapes="elementwise",
)

operator(
    "clamp_backward", 41,
    "dx = dy where clamp leaves x unchanged, bounds included; 0 where x < min, where x > max and "
    "where x is NaN",
    inputs=[tensor("x", "any"), tensor("dy", "as x")],
    outputs=[tensor("dx", "as x", may_be=["dy"])],
    attributes=[
        number("min", -INFINITY, ANY, "as in clamp"),
        number("max", INFINITY, ANY, "as in clamp"),
    ],
    dtypes=of_floats("t t -> t: rounded_once"),
    shapes="elementwise",
)

operator(
    "elementwise", 42,
    "y = function(a, b, c) for each element. A missing tensor is its number. Computed in float64 "
    "if a tensor is float64; else in int64 if all tensors are integers and the function is not "
    "one of real numbers (sqrt to sigmoid, silu to gelu, atan2, the gradients but "
    "threshold_backward, lerp, uniform to bernoulli); else in float32. Rounded once; truncated to "
    "integers as by cast, or wrapped from int64 to them. Comparisons and logic give 0 or 1; "
    "integers divide truncated, by zero unspecified; relu, maximum, minimum and clamp keep NaN. i "
    "is the row-major index in y. copy casts, and ne of a and 0 gives what frameworks call bool",
    inputs=[tensor("a", "as y", optional=True), tensor("b", "as y", optional=True),
            tensor("c", "as y", optional=True)],
    outputs=[tensor("y", "any", may_be=["a", "b", "c"])],
    attributes=[
        enumerator("function", "elementwise_function",
                   "copy a; arange a + b*i; functions of a: neg to bitwise_not (round to even, "
                   "gelu by erf); add a + alpha*b; sub a - alpha*b; mul; div; floor_div; remainder "
                   "(the sign of b); fmod (the sign of a); pow to bitwise_xor of a and b; "
                   "tanh_backward a*(1 - b*b); sigmoid_backward a*b*(1 - b); threshold_backward 0 "
                   "where b <= c, else a; silu_backward and gelu_backward a times the derivative "
                   "at b; clamp min(max(a, b), c); where b if a is not 0, else c; addcmul a + "
                   "alpha*b*c; addcdiv a + alpha*b/c; lerp a + c*(b - a); uniform a + (b - a)*u; "
                   "normal a + b*n; bernoulli 1 where u < a"),
        number("alpha", 1, ANY, "the factor of add, sub, addcmul and addcdiv"),
        number("a_number", 0, ANY, "a, where there is no tensor a"),
        number("b_number", 0, ANY, "b, where there is no tensor b"),
        number("c_number", 0, ANY, "c, where there is no tensor c"),
        integer("seed", 0, ANY, "the key of Philox"),
        integer("offset", 0, (0, 2**63),
                "the counter of Philox at element 0; a call on n elements uses n/4 counters, "
                "rounded up. u of element i is the upper 24 bits of word i%4 of counter offset + "
                "i/4, times 2^-24. n is sqrt(-2 ln(1 - u)) cos(2 pi v), with sin for odd i, where "
                "u and v are the words of elements 2j and 2j + 1 of the pair"),
    ],
    dtypes=[
        "f32 f32 f32 -> f32: rounded_once",
        "bf16 bf16 bf16 -> bf16: rounded_once, optional",
        "f16 f16 f16 -> f16: rounded_once, optional",
        "f64 f64 f64 -> f64: rounded_once, optional",
        "i64 i64 i64 -> i64: moved, optional",
        "i32 i32 i32 -> i32: moved, optional",
        "i16 i16 i16 -> i16: moved, optional",
        "i8 i8 i8 -> i8: moved, optional",
        "u8 u8 u8 -> u8: moved, optional",
        "f32 f32 f32 -> u8: moved, optional",
        "i64 i64 i64 -> u8: moved, optional",
        "u8 f32 f32 -> f32: rounded_once, optional",
        "u8 bf16 f32 -> bf16: rounded_once, optional",
        "u8 i64 i64 -> i64: moved, optional",
        "i64 f32 f32 -> f32: rounded_once, optional",
        "f32 bf16 f16 -> f32: rounded_once, optional",
        "bf16 f32 f32 -> bf16: rounded_once, optional",
        "f32 f64 f32 -> f32: rounded_once, optional",
        "i32 f32 i8 -> i64: moved, optional",
        "bf16 bf16 bf16 -> u8: moved, optional",
        "f16 f16 f16 -> u8: moved, optional",
        "f64 f64 f64 -> u8: moved, optional",
    ],
    shapes="broadcast",
    mixed="f64 f32 f16 bf16 i64 i32 i16 i8 u8",
)

operator(
    "reduce", 43,
    "y = function of x over the axes along which y's extent is 1. Computed in float64 if a tensor "
    "is float64; in int64 if both are integers, but for mean, norm and log_sum_exp; else in "
    "float32, in an order that is fixed for a "
    "shape. NaN wins in max, min, argmax and argmin; of equals, argmax and argmin give the first",
    inputs=[tensor("x", "any")],
    outputs=[tensor("y", "x's, with 1 along reduced axes")],
    attributes=[
        enumerator("function", "reduce_function",
                   "argmax and argmin give the row-major index among the reduced axes; any and "
                   "all 0 or 1; norm sqrt(sum x^2); abs_sum sum |x|; abs_max max |x|. For no "
                   "elements: sum 0, prod 1, any 0, all 1, mean NaN, norms 0, log_sum_exp "
                   "-infinity; max, min, argmax and argmin are refused"),
    ],
    dtypes=[
        "f32 -> f32: long_sum",
        "bf16 -> bf16: long_sum, optional",
        "f16 -> f16: long_sum, optional",
        "f64 -> f64: long_sum, optional",
        "i64 -> i64: moved, optional",
        "i32 -> i32: moved, optional",
        "u8 -> u8: moved, optional",
        "f32 -> i64: moved, optional",
        "bf16 -> f32: long_sum, optional",
        "f32 -> u8: moved, optional",
        "i32 -> i64: moved, optional",
        "u8 -> i64: moved, optional",
        "i64 -> f32: long_sum, optional",
    ],
    accumulation="f32",
    mixed="f64 f32 f16 bf16 i64 i32 i16 i8 u8",
)

operator(
    "gather", 44,
    "y[.., i, ..] = x[.., index[.., i, ..], ..] along an axis, moved bit for bit; 0 where an index "
    "is outside of x",
    inputs=[tensor("x", "y's, but for the axis"), tensor("index", "as y")],
    outputs=[tensor("y", "any")],
    attributes=[
        integer("axis", 0, (0, 7), "the axis of x and y along which the index selects"),
    ],
    dtypes=[f"{dtype} {index} -> {dtype}: moved" + ("" if dtype == "f32" else ", optional")
            for index in ("i32", "i64")
            for dtype in ("f32", "bf16", "f16", "f64", "i64", "i32", "i16", "i8", "u8")],
)

operator(
    "scatter", 45,
    "y[.., index[.., i, ..], ..] = x[.., i, ..] along an axis, or += with attribute add. Elements "
    "of one index are taken in the order of i: the last is stored, or all are added. An index "
    "outside of y is skipped; y keeps its other elements",
    inputs=[tensor("x", "y's, but for the axis"), tensor("index", "as x")],
    outputs=[tensor("y", "any", read_if="always")],
    attributes=[
        integer("axis", 0, (0, 7), "the axis of x and y along which the index selects"),
        boolean("add", "1: added in float32 (float64, int64 for such a y), and rounded after each "
                       "term or once"),
    ],
    dtypes=[f"{dtype} {index} -> {dtype}: "
            + ("moved" if dtype[0] in "iu" else "long_sum")
            + ("" if dtype == "f32" and index == "i32" else ", optional")
            for index in ("i32", "i64")
            for dtype in ("f32", "bf16", "f16", "f64", "i64", "i32", "i16", "i8", "u8")],
)
