package tagindex

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klinkio/klink"
)

// Limits of expressions.
const (
	MaxExprLen   = 1024 // bytes
	MaxExprTags  = 32   // distinct tags
	MaxExprDepth = 32   // parentheses within each other
)

// SyntaxError says where an expression is wrong.
type SyntaxError struct {
	Pos int    // byte offset
	Msg string // what was expected there, and what was found
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("tag expression, position %d: %s", e.Pos, e.Msg)
}

// Parse reads a tag expression: tags, `!` (not), `&&` (and), `||` (or), in this order of precedence, and
// parentheses. A tag with whitespace or one of ()!&|" is written "in quotes", with \" and \\ inside. Every error is a [*SyntaxError].
func Parse(s string) (*Expr, error) {
	if len(s) > MaxExprLen {
		return nil, &SyntaxError{MaxExprLen, fmt.Sprintf("expected the end, the expression is %d bytes long, limit %d", len(s), MaxExprLen)}
	}
	p := parser{in: s, e: &Expr{}}
	if err := p.next(); err != nil {
		return nil, err
	}
	root, err := p.or(0)
	if err != nil {
		return nil, err
	}
	if p.tok != tokEnd {
		return nil, p.expected(`"&&", "||" or the end`)
	}
	p.e.root = root
	p.e.compile(&p.e.root, stepFits, stepMisses)
	return p.e, nil
}

type token uint8

const (
	tokEnd token = iota
	tokTag
	tokNot
	tokAnd
	tokOr
	tokOpen
	tokClose
)

type parser struct {
	in  string
	end int // of the current token
	e   *Expr

	tok token // the current token
	pos int   // and where it begins
	tag string
}

func (p *parser) expected(what string) error {
	found := "the end"
	if p.tok != tokEnd {
		found = fmt.Sprintf("%q", p.in[p.pos:p.end])
	}
	return &SyntaxError{p.pos, "expected " + what + ", found " + found}
}

func (p *parser) or(depth int) (node, error)  { return p.list(opOr, depth) }
func (p *parser) and(depth int) (node, error) { return p.list(opAnd, depth) }

// list parses operands of one operator. However many there are, they are one level of the tree, so its height, and with
// it every recursion over it, is bounded by the depth of parentheses.
func (p *parser) list(o op, depth int) (node, error) {
	sep, operand := tokAnd, p.not
	if o == opOr {
		sep, operand = tokOr, p.and
	}
	n := node{op: o}
	for {
		kid, err := operand(depth)
		if err != nil {
			return node{}, err
		}
		n.kids = append(n.kids, kid)
		if p.tok != sep {
			break
		}
		if err := p.next(); err != nil {
			return node{}, err
		}
	}
	if len(n.kids) == 1 {
		return n.kids[0], nil
	}
	return n, nil
}

func (p *parser) not(depth int) (node, error) {
	negated := false
	for p.tok == tokNot {
		negated = !negated
		if err := p.next(); err != nil {
			return node{}, err
		}
	}
	n, err := p.primary(depth)
	if err != nil || !negated {
		return n, err
	}
	if n.op == opNot {
		return n.kids[0], nil
	}
	return node{op: opNot, kids: []node{n}}, nil
}

func (p *parser) primary(depth int) (node, error) {
	switch p.tok {
	case tokTag:
		i, err := p.intern()
		if err != nil {
			return node{}, err
		}
		return node{op: opTag, tag: i}, p.next()
	case tokOpen:
		if depth == MaxExprDepth {
			return node{}, &SyntaxError{p.pos, fmt.Sprintf("expected a tag, there are %d parentheses within each other, the limit", depth)}
		}
		if err := p.next(); err != nil {
			return node{}, err
		}
		n, err := p.or(depth + 1)
		if err != nil {
			return node{}, err
		}
		if p.tok != tokClose {
			return node{}, p.expected(`"&&", "||" or ")"`)
		}
		return n, p.next()
	}
	return node{}, p.expected(`a tag, "!" or "("`)
}

func (p *parser) intern() (int, error) {
	for i, t := range p.e.tags {
		if t == p.tag {
			return i, nil
		}
	}
	if err := klink.CheckID("tag", p.tag, klink.MaxTagLen); err != nil {
		return 0, &SyntaxError{p.pos, "expected a valid tag, " + err.Error()}
	}
	if len(p.e.tags) == MaxExprTags {
		return 0, &SyntaxError{p.pos, fmt.Sprintf("expected no more tags, %d different ones are the limit", MaxExprTags)}
	}
	p.e.tags = append(p.e.tags, strings.Clone(p.tag))
	return len(p.e.tags) - 1, nil
}

// next reads the next token.
func (p *parser) next() error {
	p.pos = p.end
	for p.pos < len(p.in) {
		r, n := utf8.DecodeRuneInString(p.in[p.pos:])
		if !unicode.IsSpace(r) {
			break
		}
		p.pos += n
	}
	p.end = p.pos + 1
	if p.pos == len(p.in) {
		p.tok, p.end = tokEnd, p.pos
		return nil
	}
	switch c := p.in[p.pos]; c {
	case '!':
		p.tok = tokNot
	case '(':
		p.tok = tokOpen
	case ')':
		p.tok = tokClose
	case '&', '|':
		if p.tok = tokAnd; c == '|' {
			p.tok = tokOr
		}
		if p.end == len(p.in) || p.in[p.end] != c {
			return p.expected(fmt.Sprintf("%q", string([]byte{c, c})))
		}
		p.end++
	case '"':
		return p.quoted()
	default:
		p.tok, p.end = tokTag, len(p.in)
		if i := strings.IndexFunc(p.in[p.pos:], endsTag); i >= 0 {
			p.end = p.pos + i
		}
		p.tag = p.in[p.pos:p.end]
	}
	return nil
}

func (p *parser) quoted() error {
	var b strings.Builder
	p.tok = tokTag
	for ; p.end < len(p.in); p.end++ {
		switch c := p.in[p.end]; c {
		case '"':
			p.end++
			p.tag = b.String()
			return nil
		case '\\':
			p.end++
			if p.end == len(p.in) || p.in[p.end] != '"' && p.in[p.end] != '\\' {
				return &SyntaxError{p.end, `expected \" or \\ after the backslash`}
			}
			b.WriteByte(p.in[p.end])
		default:
			b.WriteByte(c)
		}
	}
	return &SyntaxError{len(p.in), fmt.Sprintf("expected the quote that closes the tag at %d", p.pos)}
}
