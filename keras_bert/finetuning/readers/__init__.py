"""From the files in which data sets come to examples, one reader per kind of data."""
