"""The checks of row images in `binlake verify`."""
