// Implementation of standard_streams.h.
#include "os/standard_streams.h"

#include <fcntl.h>
#include <signal.h>

#include <cerrno>

namespace minicpm {

void SecureStandardStreams() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one. Read-only, so that writing fails as it would on a closed one.
    if (open("/dev/null", O_RDONLY) == -1) return;
  }
  signal(SIGXFSZ, SIG_IGN);
}

}  // namespace minicpm
