#include "app/views/head_values.h"

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/views/field_form.h"

namespace phasescope::app {
namespace {

using protocol::HeadsResult;
using protocol::Interval;
using protocol::MetricInfo;

}  // namespace

std::size_t cells_of(const HeadsResult& result) {
  return static_cast<std::size_t>(std::max<std::int64_t>(0, result.layers * result.heads));
}

int cell_of(const HeadsResult& result, std::int64_t layer, std::int64_t head) {
  const bool inside = layer >= 0 && head >= 0 && layer < result.layers && head < result.heads;
  return inside ? static_cast<int>(layer * result.heads + head) : -1;
}

std::vector<const protocol::HeadRow*> rows_by_cell(const HeadsResult& result) {
  std::vector<const protocol::HeadRow*> rows(cells_of(result), nullptr);
  for (const protocol::HeadRow& row : result.rows) {
    if (const int cell = cell_of(result, row.layer, row.head); cell >= 0) {
      rows[static_cast<std::size_t>(cell)] = &row;
    }
  }
  return rows;
}

const Interval* value_in(const protocol::HeadRow* row, const std::string& metric) {
  if (!row) return nullptr;
  const auto found = row->values.find(metric);
  return found == row->values.end() ? nullptr : &found->second;
}

std::vector<double> values_of(const HeadsResult& result, const std::string& metric) {
  std::vector<double> values(cells_of(result), std::nan(""));
  for (const protocol::HeadRow& row : result.rows) {
    if (const int cell = cell_of(result, row.layer, row.head); cell >= 0) {
      if (const Interval* value = value_in(&row, metric)) {
        values[static_cast<std::size_t>(cell)] = value->mean;
      }
    }
  }
  return values;
}

const MetricInfo* metric_of(const HeadsResult& result, const std::string& key) {
  for (const MetricInfo& metric : result.metrics) {
    if (metric.key == key) return &metric;
  }
  return nullptr;
}

std::vector<std::string> metric_keys(const HeadsResult& result) {
  std::vector<std::string> keys;
  for (const MetricInfo& metric : result.metrics) keys.push_back(metric.key);
  return keys;
}

std::string heading_of(const HeadsResult& result, const std::string& metric) {
  const MetricInfo* info = metric_of(result, metric);
  return info ? heading_of(*info) : title_of_key(metric);
}

std::string described(const MetricInfo& metric) {
  return metric.title + " = " + metric.formula + (metric.note.empty() ? "" : "\n" + metric.note) +
         "\n" + metric.key;
}

widgets::TableCell cell_of_table(const Interval* value) {
  if (!value) return widgets::number_cell_of(std::nan(""));
  if (!value->known()) return widgets::number_cell_of(value->mean);
  return widgets::number_cell_of(value->mean, value->low.value_or(std::nan("")),
                                 value->high.value_or(std::nan("")));
}

}  // namespace phasescope::app
