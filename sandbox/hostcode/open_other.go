//go:build !unix

package hostcode

const openNonblock, openDirectory = 0, 0
