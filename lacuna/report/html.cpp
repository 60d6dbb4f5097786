#include "lacuna/report/html.h"

#include <fmt/format.h>

#include <cmath>

#include "lacuna/core/text/text.h"

namespace lacuna::report {

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((uint8_t(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      out += "\uFFFD";
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "not defined";
}

std::string correlation(double value) {
  if (!std::isfinite(value)) return "not defined";
  return fmt::format("{:.3f}", std::abs(value) < 0.0005 ? 0.0 : value);  // no -0.000
}

Cell text_cell(std::string_view text) { return {escape(text), false}; }
Cell number_cell(double value) { return {number(value), true}; }
Cell count_cell(uint64_t count) { return {with_commas(count), true}; }

namespace {

std::string table_of(const std::vector<std::string>& head, const std::vector<TableRow>& rows,
                     bool is_sortable) {
  constexpr size_t kTall = 25;  // rows; more scroll in a box of their own
  std::string out =
      fmt::format("<div class=\"scroll{}\"><table{}><thead><tr>",
                  rows.size() > kTall ? " tall" : "", is_sortable ? " class=\"sortable\"" : "");
  for (size_t c = 0; c < head.size(); ++c) {
    const bool right = !rows.empty() && c < rows[0].cells.size() && rows[0].cells[c].is_number;
    const char* number =
        is_sortable ? " class=\"n\" data-sort-method=\"n\" data-sort-reverse" : " class=\"n\"";
    out += fmt::format("<th{}>{}</th>", right ? number : "", escape(head[c]));
  }
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += row.is_strong ? "<tr class=\"strong\">" : "<tr>";
    for (const auto& cell : row.cells)
      out += fmt::format("<td{}>{}</td>", cell.is_number ? " class=\"n\"" : "", cell.html);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string table(const std::vector<std::string>& head, const std::vector<TableRow>& rows) {
  return table_of(head, rows, false);
}

std::string sortable_table(const std::vector<std::string>& head, const std::vector<TableRow>& rows,
                           std::string_view find) {
  const std::string out = table_of(head, rows, rows.size() > 1);
  if (find.empty() || rows.size() <= 1) return out;
  return fmt::format(
      "<div class=\"found\"><input type=\"search\" placeholder=\"find {0}\" aria-label=\"find "
      "{0}\">{1}</div>\n",
      escape(find), out);
}

std::string figure(std::string_view title, std::string_view html, std::string_view note) {
  std::string out = fmt::format("<figure><figcaption>{}</figcaption>\n{}", escape(title), html);
  if (!note.empty()) out += fmt::format("<p class=\"note\">{}</p>", prose(note));
  return out + "</figure>\n";
}

std::string figures(const std::vector<std::string>& figures) {
  std::string out = "<div class=\"figures\">\n";
  for (const auto& one : figures) out += one;
  return out + "</div>\n";
}

std::string prose(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('`', at);
    const size_t close = open == text.npos ? text.npos : text.find('`', open + 1);
    if (close == text.npos) return out + escape(text.substr(at));
    out += fmt::format("{}<code>{}</code>", escape(text.substr(at, open - at)),
                       escape(text.substr(open + 1, close - open - 1)));
    at = close + 1;
  }
  return out;
}

std::string paragraph(std::string_view text) { return fmt::format("<p>{}</p>\n", prose(text)); }

std::string note(std::string_view text) {
  return fmt::format("<p class=\"note\">{}</p>\n", prose(text));
}

std::string fold(std::string_view title, std::string_view html, bool is_open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", is_open ? " open" : "",
                     escape(title), html);
}

std::string code_block(std::string_view text) {
  // A line break directly behind <pre> is not part of the text.
  return fmt::format(
      "<div class=\"code\"><button type=\"button\" class=\"copy\">copy</button><pre>\n{}</pre>"
      "</div>\n",
      escape(text));
}

std::string legend(const std::vector<LegendEntry>& entries) {
  std::string out = "<div class=\"legend\">";
  for (const auto& entry : entries)
    out += fmt::format(
        "<span><svg width=\"22\" height=\"8\" aria-hidden=\"true\"><path class="
        "\"s{} d{}\" d=\"M1 4h20\"/></svg>{}</span>",
        entry.colour % kColours, entry.colour / kColours % 3, escape(entry.name));
  return out + "</div>\n";
}

}  // namespace lacuna::report
