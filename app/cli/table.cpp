#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "app/cli/output.h"
#include "formats/utf8.h"
#include "protocol/messages/provenance.h"
#include "widgets/plot_spec.h"
#include "widgets/plot_table.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

const json& cell(const json& row, const std::string& column) {
  static const json nothing;
  const auto found = row.find(column);
  return found == row.end() ? nothing : *found;
}

std::string short_text(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return widgets::short_number(value.get<double>());
  if (const json* number = protocol::value_of_interval(value)) {
    const json &low = cell(value, "low"), &high = cell(value, "high");
    if (low.is_null() && high.is_null()) return short_text(*number) + " [-]";
    return short_text(*number) + " [" + short_text(low) + ", " + short_text(high) + "]";
  }
  if (value.is_array()) {
    std::string text;
    for (const json& item : value) text += (text.empty() ? "" : " ") + short_text(item);
    return text;
  }
  return value.dump();
}

// Five digits and what they are multiplied by: "361.44 G" is 361.44e9.
std::string counted(double value) {
  constexpr std::string_view kUnits = " kMGTPE";
  std::size_t unit = 0;
  while (std::abs(value) >= 999.995 && unit + 1 < kUnits.size()) value /= 1000, ++unit;
  const double size = std::abs(value);
  char text[32];
  if (unit == 0) {
    std::snprintf(text, sizeof text, "%.5g", value);
    return text;
  }
  std::snprintf(text, sizeof text, "%.*f", size >= 99.9995 ? 2 : size >= 9.99995 ? 3 : 4, value);
  return std::string(text) + ' ' + kUnits[unit];
}

// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t display_width(const std::string& text) {
  return std::size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string pad(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - std::min(width, display_width(text)), ' ');
  return left ? text + space : space + text;
}

std::string csv_cell(const json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) {
    const std::string text = value.dump();
    return value.is_primitive() ? text : csv_cell(json(text));
  }
  return widgets::csv_quoted(value.get<std::string>());
}

}  // namespace

std::string mark_of(const json& value) {
  return value.is_object() && value.contains("mark") ? value["mark"].get<std::string>() : "";
}

namespace {

std::string unmarked(const Table& table, const json& row, const std::string& column) {
  const json& value = cell(row, column);
  const bool count =
      value.is_number() && std::count(table.counts.begin(), table.counts.end(), column) > 0;
  return count ? counted(value.get<double>()) : short_text(value);
}

// Escapes what would end a cell of Markdown, or begin something else in it.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("|*_<`").find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string for_terminal(std::string_view text, Breaks breaks) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const formats::Utf8Char c = formats::utf8_char_at(text, at);
    const char32_t code = c.valid ? c.code : static_cast<unsigned char>(text[at]);
    const bool stays = breaks == Breaks::kept && (code == '\n' || code == '\t');
    if (stays || (code >= 0x20 && code < 0x7f) || (c.valid && code >= 0xa0)) {
      out += text.substr(at, c.length);
    } else {
      char escape[16];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(code));
      out += escape;
    }
    at += c.length;
  }
  return out;
}

std::string cell_text(const Table& table, const json& row, const std::string& column) {
  const std::string mark = mark_of(cell(row, column));
  return unmarked(table, row, column) + (mark == kBestMark     ? " *"
                                         : mark == kWithinMark ? " +"
                                                               : "");
}

std::string markdown_of(const Table& table) {
  std::string text = table.title.empty() ? "" : "## " + table.title + "\n\n", rule;
  for (const std::string& column : table.columns) {
    text += "| " + escaped(table.heading(column)) + " ";
    rule += "|---";
  }
  text += "|\n" + rule + "|\n";
  for (const json& row : table.rows) {
    for (const std::string& column : table.columns) {
      const std::string mark = mark_of(cell(row, column));
      const std::string words = escaped(unmarked(table, row, column));
      text += "| " +
              (mark == kBestMark     ? "**" + words + "**"
               : mark == kWithinMark ? "<u>" + words + "</u>"
                                     : words) +
              " ";
    }
    text += "|\n";
  }
  for (const std::string& note : table.notes) text += note.empty() ? "" : "\n" + note + "\n";
  return text;
}

std::string text_of(const Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const std::string& column : table.columns) lines[0].push_back(table.heading(column));
  std::vector<bool> words(table.columns.size(), false);
  for (const json& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      line.push_back(for_terminal(cell_text(table, row, table.columns[c]), Breaks::escaped));
      words[c] = words[c] || cell(row, table.columns[c]).is_string();
    }
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(line[c]));
    }
  }
  std::string text = table.title.empty() ? "" : for_terminal(table.title) + "\n";
  for (const auto& line : lines) {
    std::string out;
    for (std::size_t c = 0; c < line.size(); ++c) {
      out += (c ? "  " : "") + pad(line[c], widths[c], words[c]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  }
  for (const std::string& note : table.notes) {
    text += note.empty() ? "" : for_terminal(note) + "\n";
  }
  return text;
}

// A number with its interval has a column for each of them: entropy, entropy_low, entropy_high,
// entropy_n.
std::string csv_of(const Table& table) {
  constexpr const char* kOfInterval[] = {"low", "high", "n"};
  std::vector<bool> intervals;
  std::string text;
  for (const std::string& column : table.columns) {
    intervals.push_back(std::any_of(table.rows.begin(), table.rows.end(), [&](const json& row) {
      return protocol::value_of_interval(cell(row, column)) != nullptr;
    }));
    text += (intervals.size() > 1 ? "," : "") + csv_cell(column);
    if (!intervals.back()) continue;
    for (const char* key : kOfInterval) text += "," + csv_cell(column + "_" + key);
  }
  text += "\n";
  for (const json& row : table.rows) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const json& value = cell(row, table.columns[c]);
      const json* number = protocol::value_of_interval(value);
      text += (c ? "," : "") + csv_cell(number != nullptr ? *number : value);
      if (!intervals[c]) continue;
      for (const char* key : kOfInterval) {
        text += "," + (number != nullptr ? csv_cell(cell(value, key)) : "");
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace phasescope::app
