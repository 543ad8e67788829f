"""One file per thing read. Sources never import each other; the runner hands over what one needs of another."""
