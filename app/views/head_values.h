#pragma once
// The numbers of a HeadsResult by cells: layer * heads + head.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/messages/heads.h"
#include "widgets/data_table.h"

namespace phasescope::app {

std::size_t cells_of(const protocol::HeadsResult& result);
// -1 of a head that the model has not.
int cell_of(const protocol::HeadsResult& result, std::int64_t layer, std::int64_t head);
// The row of each cell; nullptr of a head that the answer leaves out.
std::vector<const protocol::HeadRow*> rows_by_cell(const protocol::HeadsResult& result);
// nullptr where a head has no such number.
const protocol::Interval* value_in(const protocol::HeadRow* row, const std::string& metric);
// The number of each cell; NaN where a head has none.
std::vector<double> values_of(const protocol::HeadsResult& result, const std::string& metric);
const protocol::MetricInfo* metric_of(const protocol::HeadsResult& result, const std::string& key);
// The metrics that are one number a head.
std::vector<std::string> metric_keys(const protocol::HeadsResult& result);
// "Entropy (nats)"; of a metric that the result does not tell of, its key in words.
std::string heading_of(const protocol::HeadsResult& result, const std::string& metric);
// Its title, its formula, what is to be said of it, and the key that the command line has for it.
std::string described(const protocol::MetricInfo& metric);
widgets::TableCell cell_of_table(const protocol::Interval* value);

}  // namespace phasescope::app
