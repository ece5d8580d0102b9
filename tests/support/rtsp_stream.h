// RtspStream: a network camera on this machine's loopback, for tests. The ffmpeg program makes H.264 packets, this
// class answers RTSP requests and passes the packets on over the same connection. Not for more than one viewer at a
// time.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <thread>

namespace minicpm::test {

class RtspStream {
 public:
  // input: what ffmpeg shall send, as its arguments up to the encoder, e.g. "-f lavfi -i testsrc2=size=96x64:rate=25";
  // it loops at its own pace until this object goes. Empty: a camera that sends nothing.
  explicit RtspStream(const std::string& input);
  ~RtspStream();
  RtspStream(const RtspStream&) = delete;
  RtspStream& operator=(const RtspStream&) = delete;

  // "rtsp://127.0.0.1:PORT/test"
  const std::string& address() const { return address_; }

 private:
  void Serve();
  // One viewer, until it leaves.
  void Talk(int viewer);
  // Answers one request. False: the viewer says goodbye.
  bool Answer(int viewer, const std::string& request);

  int listener_ = -1;  // RTSP
  int packets_ = -1;   // RTP from ffmpeg
  pid_t ffmpeg_ = -1;
  std::string address_;
  bool playing_ = false;  // the serving thread's
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace minicpm::test
