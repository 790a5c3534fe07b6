from fairseq_normalign.heads.layer_summary import summaries_by_layer
from fairseq_normalign.names import Head


def test_heads_of_a_layer_in_any_order():
    values = [3.0, 1.0, 2.0]
    for order in (values, values[::-1]):
        scores = {Head("cross", 0, number): value for number, value in enumerate(order)}
        scores[Head("encoder", 0, 0)] = 7.0
        assert summaries_by_layer(scores) == {
            ("cross", 0): {"lowest": 1.0, "mean": 2.0, "highest": 3.0},
            ("encoder", 0): {"lowest": 7.0, "mean": 7.0, "highest": 7.0},
        }
