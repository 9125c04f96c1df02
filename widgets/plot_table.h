#pragma once

#include <string>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// A cell of a CSV file, in quotes where it needs them (RFC 4180).
std::string csv_quoted(const std::string& words);

// The numbers of a figure, one line a point: series,x,y,low,high; a map as row,col,value.
// Numbers have enough digits to be read back; nan, inf and -inf are words.
std::string csv_of(const PlotSpec& plot);
std::string csv_of(const MapSpec& map);
// cell,row,column,value of every map of a grid, or cell,series,x,y,low,high of every plot; a cell
// is named by its caption's first word.
std::string csv_of(const GridSpec& grid);

}  // namespace phasescope::widgets
