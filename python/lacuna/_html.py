"""What a notebook shows of a screen or a recording: the tables of `lacuna info`."""

from __future__ import annotations

from html import escape


def screen_html(screen) -> str:
    summary = screen.summary()
    samples = summary["samples"]
    parts = [
        f"<b>{escape(summary['path'])}</b>: {samples['count']:,} samples, which remove {samples['genes_removed']:,} "
        f"of the {len(screen.genes):,} genes",
        _table(["node type", "count", "features"], [[n["type"], n["count"], _features(n)] for n in summary["nodes"]]),
        _table(
            ["edge type", "count", "self loops", "in-degree", "out-degree", "values"],
            [
                [e["type"], e["count"], e["self_loops"], _range(e["in_degree"]), _range(e["out_degree"]), ", ".join(e["values"])]
                for e in summary["edges"]
            ],
        ),
        _table(["genes removed", "samples"], [[genes, count] for genes, count in samples["removed"].items()]),
        _table(
            ["label", "measured", "missing", "mean", "sd", "min", "max"],
            [[c["name"], c["count"], c["missing"], *_moments(c)] for c in samples["labels"]],
        ),
        _table(
            ["column", "type", "missing", "what it holds"],
            [[c["name"], c["dtype"], c["missing"], _contents(c)] for c in samples["columns"]],
        ),
        _table(
            ["split", "train", "validation", "test", "unused"],
            [[s[key] for key in ("name", "train", "validation", "test", "unused")] for s in summary["splits"]],
        ),
    ]
    return "<div>" + "".join(parts) + "</div>"


def recording_html(recording) -> str:
    summary = recording.summary()
    sessions = summary["sessions"]
    columns = ("trials", "longest", "stimuli", "repeated", "outside", "invalid", "nan")
    parts = [
        f"<b>{escape(summary['path'])}</b>: {len(sessions):,} sessions, {sum(s['units'] for s in sessions):,} units, "
        f"{sum(s['frames'] for s in sessions):,} frames, {_bytes(summary['bytes'])}",
        _table(
            ["session", "subject", "Hz", "units", "segments", "frames", "minutes", *columns, "bytes"],
            [
                [s["name"], s["subject"], s["rate"], s["units"], s["segments"], s["frames"]]
                + [s["frames"] / s["rate"] / 60, *(s[key] for key in columns), _bytes(s["bytes"])]
                for s in sessions
            ],
        ),
        _table(
            ["field", "role", "dtype", "source", "row", "segments", "rows", "bytes", "NaN rows"],
            [
                [f["name"], f["role"], f["dtype"], "in place" if f["in_place"] else f.get("recorded_as", "")]
                + [f["row_shape"], f["segments"], f["rows"], _bytes(f["bytes"]), f["nan_rows"]]
                for f in summary["fields"]
            ],
        ),
        _table(
            ["split", "by", "train", "validation", "test", "unused"],
            [
                [s["name"], s["how"].get("by", "")]
                + [s["how"].get("counts", {}).get(key, 0) for key in ("train", "validation", "test", "unused")]
                for s in summary["splits"]
            ],
        ),
    ]
    return "<div>" + "".join(parts) + "</div>"


def _bytes(count: int) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _table(header: list[str], rows: list[list]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.5g}" if isinstance(value, float) else escape(str(value))


def _features(node: dict) -> str:
    return ", ".join(f"{name} [{width}]" for name, width in node["features"].items())


def _range(degrees: dict) -> str:
    return f"{degrees['min']:,} to {degrees['max']:,}, median {degrees['median']:g}"


def _moments(column: dict) -> list:
    return [column.get(key, "") for key in ("mean", "sd", "min", "max")]


def _contents(column: dict) -> str:
    if "categories" not in column:
        return f"{column['min']:.5g} to {column['max']:.5g}" if column.get("count") else "nothing"
    categories = sorted(column["categories"], key=lambda c: -c["count"])
    shown = ", ".join(f"{c['name']} ({c['count']:,})" for c in categories[:3])
    return f"{len(categories)} categories: {shown}" + (", ..." if len(categories) > 3 else "")
