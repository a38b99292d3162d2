"""What an operation of torch does to a signal, by its name: weigh, norm, activate, move, merge.

Names are those of functions and of aten operators, without the marks of in-place and operator forms:
`Tensor.__iadd__`, `torch.add` and `aten.add_.Tensor` are all "add".
"""

from typing import Any

__all__ = ["kind_of", "operation_name"]

_KINDS = {
    "weight": """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
        linear addmm bilinear multi_head_attention_forward lstm gru rnn_tanh rnn_relu _convolution""",
    "product": "matmul mm bmm einsum baddbmm addmv mv dot tensordot",
    "norm": """batch_norm layer_norm group_norm instance_norm local_response_norm rms_norm normalize
        native_batch_norm native_layer_norm native_group_norm _native_batch_norm_legit
        _native_batch_norm_legit_no_training cudnn_batch_norm""",
    "activation": """relu relu6 leaky_relu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh
        sigmoid tanh prelu rrelu softplus softsign logsigmoid glu clamp clamp_min threshold swish
        quick_gelu tanhshrink hardshrink softshrink rms_act crelu erf exp""",
    "pool": """max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_max_pool2d max_pool2d_with_indices interpolate mean amax
        upsample_nearest2d upsample_bilinear2d _adaptive_avg_pool2d lp_pool2d pixel_unshuffle""",
    "pad": "pad constant_pad_nd",
    "slice": """getitem slice select narrow chunk split split_with_sizes unbind index_select
        tensor_split""",
    "dropout": """dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout
        native_dropout""",
    "move": """view reshape flatten unflatten permute transpose t mt contiguous to type float half
        bfloat16 double clone detach expand expand_as squeeze unsqueeze roll movedim swapaxes alias
        _to_copy _unsafe_view view_as reshape_as type_as identity lift_fresh_copy data""",
    "scale": "mul div multiply true_divide neg",
    "add": "add",
    "subtract": "sub subtract rsub",
    "concat": "cat concat concatenate hstack vstack",
    "create": """zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones
        new_empty new_full new_tensor zeros ones empty full arange size numel dim stride
        shape bernoulli bernoulli_p""",
    "softmax": "softmax log_softmax scaled_dot_product_attention",
    "embedding": "embedding embedding_bag",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def kind_of(name: str) -> str:
    """The kind of an operation by its name; "other" for what is not in the table.

    >>> kind_of("conv2d"), kind_of("logsumexp")
    ('weight', 'other')
    """
    return _KIND_OF.get(name, "other")


def operation_name(function: Any) -> str:
    """The name of a function or aten operator without the marks of in-place and operator forms.

    >>> import torch
    >>> operation_name(torch.Tensor.__iadd__), operation_name(torch.ops.aten.relu_.default)
    ('add', 'relu')
    """
    packet = getattr(function, "overloadpacket", None)
    name = getattr(packet if packet is not None else function, "__name__", str(function))
    if name == "__get__":  # x.T, x.mT and the like; the property's name is on its descriptor
        name = getattr(getattr(function, "__self__", None), "__name__", name).lower()
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        plain = name[1:] if name[:1] in "ir" and name[1:] in _OPERATORS else name
        return _OPERATORS.get(plain, plain)
    return name.removesuffix("_")


_OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "matmul": "matmul",
    "neg": "neg",
    "getitem": "getitem",
}
