"""Tables: read from files of many kinds, known by their columns, written whole or not at all."""
