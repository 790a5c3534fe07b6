"""One page of HTML with everything that was measured."""
