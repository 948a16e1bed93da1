"""The old place of `loaderkit.samplers`, for one release."""
