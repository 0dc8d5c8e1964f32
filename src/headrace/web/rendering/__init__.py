"""From values to HTML: templates, charts, drawings, formatting."""
