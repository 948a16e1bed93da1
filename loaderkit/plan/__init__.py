"""The old place of `loaderkit.samplers`, for one release."""

from loaderkit.plan import samplers as samplers
