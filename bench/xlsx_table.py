"""A sheet of an .xlsx as CSV: `lacuna import` with a table whose name ends in .xlsx.

    xlsx_table.py BOOK.xlsx OUT.csv [SHEET]

Values are written as the sheet holds them, not as it shows them; formulas as what they came to when the book was saved.
A date without a year in its format is written as spreadsheets show it (1-Oct), others as 2024-10-01. What is wrong is one
line on standard output, and the exit status is 1."""

import csv
import datetime
import sys
import warnings


def text_of(cell):
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (datetime.datetime, datetime.date)):
        is_short = "y" not in str(cell.number_format).lower()
        return f"{value.day}-{value:%b}" if is_short else f"{value:%Y-%m-%d}"
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value)


def main(book, out, sheet=""):
    warnings.simplefilter("ignore")  # openpyxl has one for every style that it does not know
    try:
        import openpyxl
    except ImportError:
        return "reading .xlsx needs Python's openpyxl: `pip install openpyxl`, or save the sheet as CSV"
    try:
        sheets = openpyxl.load_workbook(book, read_only=True, data_only=True)
    except Exception as error:  # openpyxl raises many kinds for a damaged book
        return f"no workbook that openpyxl reads ({type(error).__name__}: {error})"
    names = sheets.sheetnames
    if sheet and sheet not in names:
        return f"no sheet '{sheet}'; it has {', '.join(names)}"
    rows = [[text_of(cell) for cell in row] for row in sheets[sheet or names[0]].iter_rows()]
    width = max((i + 1 for row in rows for i, text in enumerate(row) if text), default=0)
    with open(out, "w", encoding="utf-8", newline="") as file:
        for row in rows:
            if any(row):
                csv.writer(file).writerow((row + [""] * width)[:width])
    return ""


if __name__ == "__main__":
    problem = main(*sys.argv[1:])
    print(problem)
    sys.exit(1 if problem else 0)
