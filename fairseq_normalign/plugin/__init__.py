"""What fairseq's commands see. Importing this package registers it with fairseq."""

from fairseq_normalign.host.compat import disable_fused_encoder_layers
from fairseq_normalign.plugin import criterion, model, task  # noqa: F401  (register)

disable_fused_encoder_layers()
