enum class FilterState {
  // Waiting header
  WaitingHeader,
  // Processing header in Go
  ProcessingHeader,
  // Waiting data
  WaitingData,
  // Waiting all data
  WaitingAllData,
  // Processing data in Go
  ProcessingData,
  // Waiting trailer
  WaitingTrailer,
  // Processing trailer in Go
  ProcessingTrailer,
  // All done
  Done,
};
enum class GolangStatus {
  Running,
  // after called sendLocalReply
  LocalReply,
  // Continue filter chain iteration.
  Continue,
  StopAndBuffer,
  StopAndBufferWatermark,
  StopNoBuffer,
};
enum class EnvoyValue {
  // Stream info values (1-99)
  RouteName = 1,
  FilterChainName,
  Protocol,
  ResponseCode,
  ResponseCodeDetails,
  AttemptCount,
  DownstreamLocalAddress,
  DownstreamRemoteAddress,
  UpstreamLocalAddress,
  UpstreamRemoteAddress,
  UpstreamClusterName,
  VirtualClusterName,

  // SSL values (100-199)
  SslConnectionExists = 100,
  SslPeerCertificatePresented,
  SslPeerCertificateValidated,
  SslCiphersuiteId,
  SslValidFromPeerCertificate,
  SslExpirationPeerCertificate,
  SslSha256PeerCertificateDigest,
  SslSerialNumberPeerCertificate,
  SslSubjectPeerCertificate,
  SslIssuerPeerCertificate,
  SslSubjectLocalCertificate,
  SslTlsVersion,
  SslCiphersuiteString,
  SslSessionId,
  SslUrlEncodedPemEncodedPeerCertificate,
  SslUrlEncodedPemEncodedPeerCertificateChain,
  SslUriSanPeerCertificate,
  SslUriSanLocalCertificate,
  SslDnsSansPeerCertificate,
  SslDnsSansLocalCertificate,
};
enum class Protocol : uint8_t { Http10, Http11, Http2, Http3 };
