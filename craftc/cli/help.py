"""Long texts of ``--help``."""

HOW_TABLES_ARE_READ = """
How a table is read (as craftc.read_table reads it in Python):
  Formats: CSV and the like, JSON, ARFF, Excel (.xlsx), Parquet, Feather, SPSS, Stata, SAS; each also
  compressed (gzip, bzip2, xz, zip); "-" is standard input. The content decides, and the delimiter
  (comma, semicolon, tab, | or another) is detected. Several files, a folder or a pattern are one table.
  A title above the column names is skipped (--skip, --header).
  Missing values: empty cells and "?". In columns of numbers and dates also NA, n/a, NaN, null, none
  and -; in text columns these are levels, unless --na names them.
  Numeric columns: also $1,200, 12%, 7 km, (3.20) and 1.234,50. A few other cells become missing.
  Categorical columns: text, codes such as 007, and integers with at most {codes} distinct values (--numeric
  treats such a column as numeric), unless five columns or more have answers on one scale such as 1 to 5.
  Dates become days since 1970-01-01, shown as dates.
  Numeric columns need no scaling. A column of up to 64 distinct values is modelled value by value,
  others by about 64 intervals, so that skewed, rounded and repeated numbers need no treatment.
  Excluded columns: row counters and other ids, columns without any value or with one value, and text
  columns with a different text in every row. The output lists them; --numeric and --categorical
  include them.
"""
