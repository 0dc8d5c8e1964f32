"""The version of Headrace. The build reads it here, so that a bare checkout knows it too."""

VERSION = "0.1.0"
