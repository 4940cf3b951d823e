# Keys and kubeconfigs, made in the folder of ca.key. Sourced with $dir, $address and $api set.

certificate() { # name subject usage names
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2> /dev/null
  { echo basicConstraints=CA:FALSE; echo keyUsage=digitalSignature; echo "extendedKeyUsage=$3"; [ -z "$4" ] || echo "subjectAltName=$4"; } > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt" 2> /dev/null
}

kubeconfig() {
  cat > "$dir/$1.kubeconfig" << K
apiVersion: v1
kind: Config
clusters: [{name: real, cluster: {server: "https://$address:$api", certificate-authority-data: $(base64 -w0 < ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 < "$1.crt"), client-key-data: $(base64 -w0 < "$1.key")}}]
contexts: [{name: real, context: {cluster: real, user: $1}}]
current-context: real
K
}
