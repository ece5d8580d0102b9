// NewTerminalEditor for a build without libedit.
#include "line_editor.h"

namespace minicpm::cli {

std::unique_ptr<LineEditor> NewTerminalEditor(const std::string& /*history_file*/) { return NewPlainEditor(true); }

}  // namespace minicpm::cli
