// The system's cache of file pages: forgetting a file, so that reading it from the disk can be timed.
#pragma once

#include <string>

#include "base/status.h"

namespace minicpm {

// Asks the system to drop what it holds of the file. Pages that some process maps, and file systems in memory, stay.
// Errors: kNotFound, kIo; kUnsupported where the system has no such request.
Status DropFromPageCache(const std::string& path);

}  // namespace minicpm
