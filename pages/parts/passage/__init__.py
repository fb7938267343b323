"""A sequence as running text: what is shown at each token (scales, content) and the component that shows it."""
