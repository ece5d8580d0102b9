// What a program may rely on about descriptors 0, 1 and 2. Not for reading or writing them.
#pragma once

namespace minicpm {

// Puts something in place of standard streams that are closed: else the next file that is opened takes their number,
// and messages would be written into it. Reading then finds the end, writing fails. Also makes writing beyond a file
// size limit an error instead of a signal that ends the program. Call it first in main().
void SecureStandardStreams();

}  // namespace minicpm
