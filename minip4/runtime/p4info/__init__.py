"""What P4Info says: names, types and translations, and how values are written."""
