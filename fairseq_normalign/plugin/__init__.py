"""What fairseq's commands see. Importing this package registers it with fairseq."""

from fairseq_normalign.host.compat import repair_fairseq
from fairseq_normalign.plugin import (  # noqa: F401  (register)
    criterion,
    masked,
    model,
    multilingual,
    task,
)
from fairseq_normalign.plugin.fairseq_commands import parse_as_plugin, report_bad_input

repair_fairseq()
parse_as_plugin()
report_bad_input()
