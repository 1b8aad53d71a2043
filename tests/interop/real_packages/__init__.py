"""Exports in the hands of the packages that they are for; `make interop` installs those and runs these tests."""
