"""What fairseq's commands see. Importing this package registers it with fairseq."""

from fairseq_normalign.host.compat import (
    disable_fused_encoder_layers,
    load_encoder_layers_without_copies,
    restore_numpy_integers,
)
from fairseq_normalign.plugin import criterion, masked, model, task  # noqa: F401  (register)
from fairseq_normalign.plugin.help import show_chosen_options
from fairseq_normalign.plugin.uncaught import report_bad_input
from fairseq_normalign.plugin.validation import take_task_from_command_line

disable_fused_encoder_layers()
restore_numpy_integers()
load_encoder_layers_without_copies()
show_chosen_options()
take_task_from_command_line()
report_bad_input()
