/* `scan` finds the same tags as the regular expression of webcrawl.parse.markup, in a sixth of the
 * time; `text_blocks` the same blocks as webcrawl.parse.maintext, in a tenth; `crowded` the same
 * tags as markup, and `depths` what webcrawl.tools.corpus.text does, in a twentieth.
 *
 * Those modules define what is found. Every byte is read a bounded number of times; `scan` takes
 * constant memory, `text_blocks` that of the text. The buffer of a bytes object ends with a NUL,
 * which is in none of the classes below: so the byte at `end` may be read.
 */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <string.h>

typedef const unsigned char *Place; /* in the page */

enum { BLANK = 1, LETTER = 2, USUAL_NAME = 4, TAG_NAME_END = 8, NAME_END = 16, VALUE_END = 32 };
static unsigned char classes[256];

static inline bool is(Place at, int class) { return classes[*at] & class; }

static inline Place past(Place at, Place end, int class) {
    while (at < end && is(at, class)) at++;
    return at;
}

static inline Place until(Place at, Place end, int class) {
    while (at < end && !is(at, class)) at++;
    return at;
}

/* The first `byte` from `at` on, or `end`. */
static inline Place find(Place at, Place end, unsigned char byte) {
    Place found = at < end ? memchr(at, byte, end - at) : NULL;
    return found ? found : end;
}

/* The ">" behind attributes, or `end`; the next attribute, if there are more than `most`. */
static Place attributes_end(Place at, Place end, Py_ssize_t most) {
    while (at < end && *at != '>') {
        if (is(at, BLANK) || *at == '/') {
            at++;
            continue;
        }
        if (!most--) break;
        at = until(at + 1, end, NAME_END);
        Place equals = past(at, end, BLANK);
        if (*equals != '=') continue;
        at = past(equals + 1, end, BLANK);
        if (*at == '"' || *at == '\'') {
            at = find(at + 1, end, *at);
            if (at < end) at++;
        } else {
            at = until(at, end, VALUE_END);
        }
    }
    return at;
}

/* The ">" of a comment, or `end`; `at` is behind "<!--". */
static Place comment_end(Place at, Place end) {
    if (*at == '>') return at;
    if (*at == '-' && at[1] == '>') return at + 1;
    for (; (at = find(at, end, '-')) < end; at++) {
        if (at[1] != '-') continue;
        if (at[2] == '>') return at + 2;
        if (at[2] == '!' && at[3] == '>') return at + 3;
    }
    return end;
}

static const struct {
    Py_ssize_t size;
    const char *name;
} OF_INTEREST[] = {
    {1, "a"},        {3, "svg"},      {3, "xmp"},       {4, "/svg"},      {4, "area"},
    {4, "base"},     {4, "link"},     {4, "math"},      {4, "meta"},      {5, "/math"},
    {5, "embed"},    {5, "frame"},    {5, "style"},     {5, "title"},     {6, "iframe"},
    {6, "object"},   {6, "script"},   {7, "noembed"},   {8, "noframes"},  {8, "template"},
    {8, "textarea"}, {9, "/template"}, {9, "plaintext"},
}; /* by size: most tags of a page have short names */
enum { LONGEST = 9, NAMES = sizeof OF_INTEREST / sizeof *OF_INTEREST };

/* The name in lower case; "" if the tag is of no interest. `at` is behind the "<". */
static const char *name_of_interest(Place at, Py_ssize_t size) {
    char lower[LONGEST];
    if (size > LONGEST) return "";
    for (Py_ssize_t i = 0; i < size; i++) lower[i] = at[i] | 0x20;
    for (size_t i = 0; i < NAMES && OF_INTEREST[i].size <= size; i++)
        if (OF_INTEREST[i].size == size && !memcmp(OF_INTEREST[i].name, lower, size))
            return OF_INTEREST[i].name;
    return "";
}

/* The ">" of `<a class="b" href="c">`, and its href; NULL if a link is written otherwise. */
static Place usual_link_end(Place at, Place end, Place *href, Place *href_end) {
    *href = NULL;
    while (!*href || *at != '>') {
        Place name = past(at, end, BLANK);
        bool is_href = !*href && !strncmp((const char *)name, "href=\"", 6);
        if (name == at || *name < 'a' || *name > 'z' || *name == 'r') return NULL;
        if (*name == 'h' && !*href && !is_href) return NULL;
        at = past(name, end, USUAL_NAME);
        if (*at != '=' || at[1] != '"') return NULL;
        Place value = at + 2;
        at = find(value, end, '"');
        if (at == end) return NULL;
        if (is_href) *href = value, *href_end = at;
        at++;
    }
    return at;
}

static bool append(PyObject *list, Place from, Place to) {
    PyObject *value = PyBytes_FromStringAndSize((const char *)from, to - from);
    bool done = value && PyList_Append(list, value) == 0;
    Py_XDECREF(value);
    return done;
}

enum { AT_A_TIME = 20000 }; /* tags per call: a call holds the GIL until it ends */

PyDoc_STRVAR(scan_doc,
             "scan(payload: bytes, at: int) -> tuple[list[bytes], bytes, bytes, int]\n\n"
             "As `webcrawl.parse.markup.scan_by_regex` has it.");

static PyObject *scan(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    char *page;
    Py_ssize_t size, start;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "scan() takes a payload and a place");
    if (PyBytes_AsStringAndSize(args[0], &page, &size) < 0) return NULL;
    start = PyLong_AsSsize_t(args[1]);
    if (start == -1 && PyErr_Occurred()) return NULL;
    if (start < 0 || start > size) return PyErr_Format(PyExc_ValueError, "no place in the payload");
    PyObject *hrefs = PyList_New(0);
    if (!hrefs) return NULL;

    Place at = (Place)page + start, end = (Place)page + size, attributes = end;
    const char *found = "";
    for (int left = AT_A_TIME; left && !*found && (at = find(at, end, '<')) < end; left--) {
        Place name = at + 1, href, href_end;
        if (*name == 'a' && is(name + 1, BLANK) &&
            (at = usual_link_end(name + 1, end, &href, &href_end))) {
            if (!append(hrefs, href, href_end)) {
                Py_DECREF(hrefs);
                return NULL;
            }
        } else if (is(name, LETTER) || (*name == '/' && is(name + 1, LETTER))) {
            attributes = until(name + 1, end, TAG_NAME_END);
            at = attributes_end(attributes, end, PY_SSIZE_T_MAX);
            if (at < end) found = name_of_interest(name, attributes - name);
        } else if (*name == '!' && name[1] == '-' && name[2] == '-') {
            at = comment_end(name + 3, end);
        } else if (*name == '!' || *name == '?' || *name == '/') {
            at = find(name, end, '>');
        } else {
            at = name;
        }
    }
    if (!*found) attributes = at;
    PyObject *result = Py_BuildValue("(Oyy#n)", hrefs, found, attributes, at - attributes,
                                     (Py_ssize_t)(at - (Place)page) + (*found != 0));
    Py_DECREF(hrefs);
    return result;
}

/* What a tag does: webcrawl.parse.maintext has the same numbers. */
enum { INLINE_TAG, A_LINK, A_LINK_END, RAW, ASIDE, ASIDE_END, BOX, BLOCK };
enum { BLOCK_WORDS = 10, LINK_WORDS = 8 };

typedef struct {
    Place at;
    Py_ssize_t size;
} Name;

static bool same(Name one, Name other) {
    return one.size == other.size && !memcmp(one.at, other.at, one.size);
}

/* Whether `name` is that of the end tag of `opening`, in any case if `any_case`. */
static bool is_end_of(Name name, Name opening, bool any_case) {
    if (name.size != opening.size + 1 || *name.at != '/') return false;
    for (Py_ssize_t i = 0; i < opening.size; i++) {
        unsigned char one = name.at[i + 1], other = opening.at[i];
        if (one != other && !(any_case && (one ^ other) == 0x20 && is(name.at + i + 1, LETTER)))
            return false;
    }
    return true;
}

/* The text blocks of a page, and the one that is being read. */
typedef struct {
    PyObject *main, *rest, *beside;       /* lists */
    unsigned char *text;                  /* of this block, `size` bytes of it */
    Py_ssize_t size, links, link_words;
    bool is_link;                         /* whether a link is open */
} Blocks;

static Py_ssize_t spaces(Place at, Place end) {
    Py_ssize_t count = 0;
    for (; at < end; at++) count += *at == ' ';
    return count;
}

static void add_text(Blocks *blocks, Place at, Place end) {
    if (at == end || (end - at == 1 && *at == '\n')) return;
    memcpy(blocks->text + blocks->size, at, end - at);
    blocks->size += end - at;
    if (blocks->is_link) blocks->link_words += spaces(at, end) + 1;
}

static bool end_block(Blocks *blocks, bool is_beside) {
    blocks->is_link = false;
    if (!blocks->size) return true;
    Place end = blocks->text + blocks->size;
    Py_ssize_t words = spaces(blocks->text, end) - blocks->link_words;
    bool is_long = words >= BLOCK_WORDS && words >= LINK_WORDS * blocks->links;
    PyObject *list = is_beside ? blocks->beside : is_long ? blocks->main : blocks->rest;
    blocks->size = blocks->links = blocks->link_words = 0;
    return append(list, blocks->text, end);
}

/* The value of `name` in the dict `actions`; BLOCK without one, -1 after an error. */
static long action_of(PyObject *actions, Name name) {
    PyObject *key = PyBytes_FromStringAndSize((const char *)name.at, name.size);
    PyObject *action = key ? PyDict_GetItemWithError(actions, key) : NULL; /* borrowed */
    Py_XDECREF(key);
    if (action) return PyLong_AsLong(action);
    return PyErr_Occurred() ? -1 : BLOCK;
}

/* What `is_beside` says of the attributes of a box: 1 or 0, -1 after an error. */
static int is_beside_of(PyObject *is_beside, Place at, Place end) {
    PyObject *said = PyObject_CallFunction(is_beside, "y#", at, end - at);
    int truth = said ? PyObject_IsTrue(said) : -1;
    Py_XDECREF(said);
    return truth;
}

/* Fills `blocks`. False after an error. */
static bool read_blocks(Blocks *blocks, Place at, Place end, PyObject *actions,
                        PyObject *is_beside) {
    Name raw = {0}, box = {0}; /* a script that is open; a box beside the text */
    Py_ssize_t asides = 0, boxes = 0;
    for (Place next; at <= end; at = next + 1) {
        next = find(at, end, '<');
        Place tag_end = find(at, next, '>');
        Name name = {at, find(at, tag_end, ' ') - at};
        if (raw.size && !is_end_of(name, raw, true)) continue;
        raw.size = 0;
        long action = action_of(actions, name);
        if (action < 0) return false;
        if (action >= RAW && !end_block(blocks, asides || boxes)) return false;
        if (action == RAW) {
            raw = name;
            continue;
        }
        if (action == A_LINK) {
            blocks->is_link = true;
            blocks->links++;
        } else if (action == A_LINK_END) {
            blocks->is_link = false;
        } else if (action == ASIDE) {
            asides++;
        } else if (action == ASIDE_END) {
            asides -= asides > 0;
        } else if (action >= BOX && boxes) {
            boxes += same(name, box) - is_end_of(name, box, false);
        } else if (action == BOX && name.at + name.size + 1 < tag_end) {
            boxes = is_beside_of(is_beside, name.at + name.size + 1, tag_end);
            if (boxes < 0) return false;
            box = name;
        }
        if (tag_end < next) add_text(blocks, tag_end + 1, next);
    }
    return end_block(blocks, asides || boxes);
}

PyDoc_STRVAR(text_blocks_doc,
             "text_blocks(payload: bytes, actions: dict[bytes, int], is_beside)\n"
             "    -> tuple[list[bytes], list[bytes], list[bytes]]\n\n"
             "As `webcrawl.parse.maintext.text_blocks_in_python` has it.");

static PyObject *text_blocks(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    char *page;
    Py_ssize_t size;
    if (count != 3 || !PyDict_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "text_blocks() takes a payload, a dict, a function");
    if (PyBytes_AsStringAndSize(args[0], &page, &size) < 0) return NULL;
    Blocks blocks = {PyList_New(0), PyList_New(0), PyList_New(0), PyMem_Malloc(size + 1)};
    PyObject *result = NULL;
    if (!blocks.text)
        PyErr_NoMemory();
    else if (blocks.main && blocks.rest && blocks.beside &&
             read_blocks(&blocks, (Place)page, (Place)page + size, args[1], args[2]))
        result = Py_BuildValue("(OOO)", blocks.main, blocks.rest, blocks.beside);
    PyMem_Free(blocks.text);
    Py_XDECREF(blocks.main);
    Py_XDECREF(blocks.rest);
    Py_XDECREF(blocks.beside);
    return result;
}

PyDoc_STRVAR(crowded_doc,
             "crowded(payload: bytes, most: int, again: int) -> list[int]\n\n"
             "As `webcrawl.parse.markup.crowded_by_regex` has it.");

static PyObject *crowded(PyObject *module, PyObject *args) {
    const char *page;
    Py_ssize_t size, most, again;
    if (!PyArg_ParseTuple(args, "y#nn", &page, &size, &most, &again)) return NULL;
    PyObject *places = PyList_New(0);
    Place at = (Place)page, end = at + size;
    for (Py_ssize_t left = again * size; places && (at = find(at, end, '<')) < end; at++) {
        Place name = at + 1 + (at[1] == '/'), tag_end = name;
        if (!is(name, LETTER)) continue;
        if (left >= 0) tag_end = attributes_end(until(name, end, TAG_NAME_END), end, most);
        left -= tag_end - at;
        if (left >= 0 && (tag_end == end || *tag_end == '>')) continue;
        PyObject *place = PyLong_FromSsize_t(at - (Place)page);
        if (!place || PyList_Append(places, place) < 0) Py_CLEAR(places);
        Py_XDECREF(place);
    }
    return places;
}

enum { FORMATTING, CONTAINER, KINDS };
static const struct {
    char name[8];
    int kind;
} NESTING[] = {
    {"article", CONTAINER}, {"div", CONTAINER},      {"ol", CONTAINER},     {"ul", CONTAINER},
    {"b", FORMATTING},      {"big", FORMATTING},     {"code", FORMATTING},  {"em", FORMATTING},
    {"font", FORMATTING},   {"i", FORMATTING},       {"nobr", FORMATTING},  {"s", FORMATTING},
    {"small", FORMATTING},  {"strike", FORMATTING},  {"strong", FORMATTING}, {"tt", FORMATTING},
    {"u", FORMATTING},
};

/* The kind of the tag whose name begins at `at`; KINDS for any other. */
static int nesting_kind(Place at) {
    char name[sizeof NESTING[0].name] = {0};
    size_t size = 0;
    for (; is(at, LETTER) && size < sizeof name; at++) name[size++] = *at | 0x20;
    if (!is(at, TAG_NAME_END)) return KINDS;
    for (size_t i = 0; i < sizeof NESTING / sizeof *NESTING; i++)
        if (!memcmp(NESTING[i].name, name, sizeof name)) return NESTING[i].kind;
    return KINDS;
}

PyDoc_STRVAR(depths_doc,
             "depths(payload: bytes) -> tuple[int, int]\n\n"
             "As `webcrawl.tools.corpus.text.depths_by_regex` has it.");

static PyObject *depths(PyObject *module, PyObject *payload) {
    char *page;
    Py_ssize_t size, depth[KINDS] = {0}, deepest[KINDS] = {0};
    if (PyBytes_AsStringAndSize(payload, &page, &size) < 0) return NULL;
    Place at = (Place)page, end = at + size;
    for (; (at = find(at, end, '<')) < end; at++) {
        bool is_end = at[1] == '/';
        int kind = nesting_kind(at + 1 + is_end);
        if (kind == KINDS) continue;
        depth[kind] += is_end ? -(depth[kind] > 0) : 1;
        if (depth[kind] > deepest[kind]) deepest[kind] = depth[kind];
    }
    return Py_BuildValue("(nn)", deepest[FORMATTING], deepest[CONTAINER]);
}

static void classify(void) {
    for (const char *c = "\t\n\f\r "; *c; c++)
        classes[(unsigned char)*c] = BLANK | TAG_NAME_END | NAME_END | VALUE_END;
    classes['/'] = TAG_NAME_END | NAME_END;
    classes['>'] = TAG_NAME_END | NAME_END | VALUE_END;
    classes['='] = NAME_END;
    classes['-'] = USUAL_NAME;
    for (int c = '0'; c <= '9'; c++) classes[c] = USUAL_NAME;
    for (int c = 'a'; c <= 'z'; c++) classes[c] = LETTER | USUAL_NAME;
    for (int c = 'A'; c <= 'Z'; c++) classes[c] = LETTER;
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"text_blocks", (PyCFunction)(void (*)(void))text_blocks, METH_FASTCALL, text_blocks_doc},
    {"crowded", crowded, METH_VARARGS, crowded_doc},
    {"depths", depths, METH_O, depths_doc},
    {0},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "webcrawl_scan",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit_webcrawl_scan(void) {
    classify();
    return PyModule_Create(&module);
}
