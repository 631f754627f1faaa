#!/bin/sh
# Makes the certificates of the tests anew. They are valid for 100 years, and secret to nobody.
set -e
cd "$(dirname "$0")"
authority() { # name
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    openssl req -x509 -new -key "$1.key" -days 36500 -subj "/CN=$1" -out "$1.pem"
}
signed() { # name, authority, subject alternative names
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    printf 'subjectAltName=%s\n' "$3" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 36500 -extfile "$1.ext" -out "$1.pem"
    rm "$1.csr" "$1.ext"
}
authority authority
authority stranger
signed server authority IP:127.0.0.1,DNS:localhost
signed renewed authority IP:127.0.0.1,DNS:localhost
signed client authority DNS:client
signed unknown stranger DNS:unknown
openssl pkcs8 -topk8 -in server.key -passout pass:secret -out server-encrypted.key
rm ./*.srl authority.key stranger.key
