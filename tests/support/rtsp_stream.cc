// As little RTSP (RFC 2326) as a player needs: DESCRIBE, SETUP over the connection itself, PLAY. See rtsp_stream.h.
#include "tests/support/rtsp_stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace minicpm::test {
namespace {

// A socket on a free port of the loopback interface.
int Bound(int kind, int* port) {
  const int fd = ::socket(AF_INET, kind | SOCK_CLOEXEC, 0);
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof where;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&where), length) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &length) != 0) {
    std::abort();
  }
  *port = ntohs(where.sin_port);
  return fd;
}

bool Ready(int fd, int wait_ms) {
  pollfd one = {.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, wait_ms) > 0;
}

bool SendAll(int fd, const char* data, size_t n) {
  while (n > 0) {
    const ssize_t sent = ::send(fd, data, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    n -= static_cast<size_t>(sent);
  }
  return true;
}

// The value of a header line, or nothing.
std::string Header(const std::string& request, const std::string& name) {
  const size_t at = request.find("\r\n" + name + ":");
  if (at == std::string::npos) return "";
  const size_t begin = request.find_first_not_of(' ', at + name.size() + 3);
  return request.substr(begin, request.find("\r\n", begin) - begin);
}

}  // namespace

RtspStream::RtspStream(const std::string& input) {
  int port = 0, packet_port = 0;
  listener_ = Bound(SOCK_STREAM, &port);
  packets_ = Bound(SOCK_DGRAM, &packet_port);
  if (::listen(listener_, 4) != 0) std::abort();
  address_ = "rtsp://127.0.0.1:" + std::to_string(port) + "/test";
  if (!input.empty()) {
    const std::string command = "exec ffmpeg -nostdin -v quiet -re -stream_loop -1 " + input +
                                " -an -c:v libx264 -preset ultrafast -tune zerolatency -g 10 -pix_fmt yuv420p "
                                "-bsf:v dump_extra -payload_type 96 -f rtp 'rtp://127.0.0.1:" +
                                std::to_string(packet_port) + "?pkt_size=1200' >/dev/null 2>&1";
    ffmpeg_ = ::fork();
    if (ffmpeg_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
  }
  thread_ = std::thread([this] { Serve(); });
}

RtspStream::~RtspStream() {
  stop_ = true;
  thread_.join();
  if (ffmpeg_ > 0) {
    ::kill(ffmpeg_, SIGKILL);
    ::waitpid(ffmpeg_, nullptr, 0);
  }
  ::close(listener_);
  ::close(packets_);
}

void RtspStream::Serve() {
  while (!stop_) {
    if (!Ready(listener_, 50)) continue;
    const int viewer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (viewer < 0) continue;
    Talk(viewer);
    ::close(viewer);
  }
}

void RtspStream::Talk(int viewer) {
  std::string received;
  std::array<char, 65536> buffer;
  playing_ = false;
  while (!stop_) {
    pollfd both[2] = {{.fd = viewer, .events = POLLIN, .revents = 0}, {.fd = packets_, .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, 50) <= 0) continue;
    if (both[1].revents != 0) {
      const ssize_t n = ::recv(packets_, buffer.data() + 4, buffer.size() - 4, 0);
      if (n > 0 && playing_) {  // RFC 2326, 10.12: '$', channel, length, packet
        buffer[0] = '$';
        buffer[1] = 0;
        buffer[2] = static_cast<char>(n >> 8);
        buffer[3] = static_cast<char>(n & 255);
        if (!SendAll(viewer, buffer.data(), static_cast<size_t>(n) + 4)) return;
      }
    }
    if (both[0].revents == 0) continue;
    const ssize_t n = ::recv(viewer, buffer.data(), buffer.size(), 0);
    if (n <= 0) return;
    received.append(buffer.data(), static_cast<size_t>(n));
    while (!received.empty()) {
      if (received[0] == '$') {  // the viewer's own reports
        if (received.size() < 4) break;
        const size_t length =
            static_cast<size_t>(static_cast<uint8_t>(received[2])) << 8 | static_cast<uint8_t>(received[3]);
        if (received.size() < 4 + length) break;
        received.erase(0, 4 + length);
        continue;
      }
      const size_t end = received.find("\r\n\r\n");
      if (end == std::string::npos) break;
      const std::string request = received.substr(0, end + 4);
      received.erase(0, end + 4);
      if (!Answer(viewer, request)) return;
    }
  }
}

bool RtspStream::Answer(int viewer, const std::string& request) {
  std::string headers = "CSeq: " + Header(request, "CSeq") + "\r\n";
  std::string body;
  if (request.starts_with("OPTIONS")) headers += "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n";
  if (request.starts_with("DESCRIBE")) {
    body =
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=test\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n"
        "a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\na=control:track0\r\n";
    headers += "Content-Base: " + address_ + "/\r\nContent-Type: application/sdp\r\n";
  }
  if (request.starts_with("SETUP")) headers += "Session: 1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
  if (request.starts_with("PLAY")) headers += "Session: 1\r\nRange: npt=now-\r\n";
  if (!body.empty()) headers += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  const std::string answer = "RTSP/1.0 200 OK\r\n" + headers + "\r\n" + body;
  if (!SendAll(viewer, answer.data(), answer.size())) return false;
  playing_ = playing_ || request.starts_with("PLAY");
  return !request.starts_with("TEARDOWN");
}

}  // namespace minicpm::test
