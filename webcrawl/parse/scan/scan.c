/* Finds the same tags as the regular expression of webcrawl.parse.markup, in a sixth of the time.
 *
 * That module defines tags of interest and usual links. Every byte is read a bounded number of
 * times, in constant memory. The buffer of a bytes object ends with a NUL, which is in none of the
 * classes below: so the byte at `end` may be read.
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

/* The ">" behind attributes, or `end`. */
static Place attributes_end(Place at, Place end) {
    while (at < end && *at != '>') {
        if (is(at, BLANK) || *at == '/') {
            at++;
            continue;
        }
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
            at = attributes_end(attributes, end);
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
