"""What fairseq's commands see. Importing this package registers it with fairseq."""

from fairseq_normalign.host.compat import (
    disable_fused_encoder_layers,
    end_reading_ahead,
    give_bart_tasks_their_args,
    load_encoder_layers_without_copies,
    repair_swish,
    restore_numpy_integers,
)
from fairseq_normalign.plugin import (  # noqa: F401  (register)
    criterion,
    masked,
    model,
    multilingual,
    task,
)
from fairseq_normalign.plugin.fairseq_commands import (
    report_bad_input,
    show_chosen_options,
    take_task_from_command_line,
)

disable_fused_encoder_layers()
restore_numpy_integers()
repair_swish()
end_reading_ahead()
give_bart_tasks_their_args()
load_encoder_layers_without_copies()
show_chosen_options()
take_task_from_command_line()
report_bad_input()
