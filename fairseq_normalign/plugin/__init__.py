"""The only imports of fairseq. Importing this package registers the plugin's models and allows safe loading."""

from fairseq_normalign.plugin import model, task  # noqa: F401  (register)
from fairseq_normalign.plugin.checkpoint import allow_checkpoint_classes

allow_checkpoint_classes()
