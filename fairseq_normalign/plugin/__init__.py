"""The only imports of fairseq. Importing this package registers the plugin and lets fairseq run on today's PyTorch."""

from fairseq_normalign.plugin import criterion, model, task  # noqa: F401  (register)
from fairseq_normalign.plugin.checkpoint import allow_checkpoint_classes
from fairseq_normalign.plugin.compat import disable_fused_encoder_layers

allow_checkpoint_classes()
disable_fused_encoder_layers()
