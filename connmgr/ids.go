package connmgr

// idRef names a block of an [idArena]: size class in the upper 8 bits, block index in the lower 24. 0: none.
type idRef uint32

const (
	idStep     = 16
	idClasses  = 18 // (2 + 128 + 128) / 16, rounded up, plus the unused class 0
	idChunkLen = 256
)

// idArena keeps the user and device ids of the sessions in pointer-free blocks of 16 to 272 bytes:
// length of the user id, length of the device id, user id, device id. Both are at most 128 bytes long.
type idArena struct {
	classes [idClasses]idClass
}

type idClass struct {
	chunks [][]byte // idChunkLen blocks each
	free   []uint32 // block indices
	used   uint32   // blocks ever handed out
}

// put stores both ids and returns their block.
func (a *idArena) put(user, device string) idRef {
	n := 2 + len(user) + len(device)
	class := (n + idStep - 1) / idStep
	c := &a.classes[class]
	var idx uint32
	if k := len(c.free); k > 0 {
		idx = c.free[k-1]
		c.free = c.free[:k-1]
	} else {
		idx = c.used
		c.used++
		if int(idx/idChunkLen) >= len(c.chunks) {
			c.chunks = append(c.chunks, make([]byte, idChunkLen*class*idStep))
		}
	}
	b := c.block(idx, class)
	b[0], b[1] = byte(len(user)), byte(len(device))
	copy(b[2:], user)
	copy(b[2+len(user):], device)
	return idRef(class)<<24 | idRef(idx+1)
}

func (c *idClass) block(idx uint32, class int) []byte {
	off := int(idx%idChunkLen) * class * idStep
	return c.chunks[idx/idChunkLen][off : off+class*idStep : off+class*idStep]
}

// get returns the ids as views into the arena, valid until drop.
func (a *idArena) get(r idRef) (user, device []byte) {
	if r == 0 {
		return nil, nil
	}
	class := int(r >> 24)
	b := a.classes[class].block(uint32(r&0xffffff)-1, class)
	u, d := int(b[0]), int(b[1])
	return b[2 : 2+u], b[2+u : 2+u+d]
}

// drop frees the block.
func (a *idArena) drop(r idRef) {
	if r == 0 {
		return
	}
	c := &a.classes[r>>24]
	c.free = append(c.free, uint32(r&0xffffff)-1)
}
